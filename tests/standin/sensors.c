/* What the driver's sensors show of the truth: late, averaged, quantised, wrapping. */
#include "standin.h"

#include <math.h>

enum { POWER_RING = 0, UTILIZATION_RING = 1, MEMORY_RING = 2, CLOCK_RING = 5 };

/* A normal deviate that belongs to (card, tick): the same question gives the same answer. */
static double noise(int card, int64_t tick) {
    uint64_t z = (uint64_t)tick * 0x9E3779B97F4A7C15ull + (uint64_t)(card + 1) * 0xD1B54A32D192ED03ull;
    double sum = 0.0;
    for (int i = 0; i < 12; i++) {
        z ^= z >> 30, z *= 0xBF58476D1CE4E5B9ull, z ^= z >> 27, z *= 0x94D049BB133111EBull, z ^= z >> 31;
        sum += (double)(z >> 11) / 9007199254740992.0;
    }
    return sum - 6.0;
}

static double shown(int card, double watts, double x) {
    if (!cards[card].timeline.n) watts = 20.0; /* a card of which the script says nothing idles */
    double read = fact(card, "power_gain", 1.0) * watts + fact(card, "power_offset_watts", 0.0);
    double quantum = fact(card, "power_quantum_watts", 0.001);
    read += fact(card, "power_noise_watts", 0.0) * noise(card, llround(x * 1e3));
    return fmax(round(read / quantum) * quantum, 0.0);
}

double power_instant_watts(int card, double x) {
    double refresh = fact(card, "power_refresh_s", 0.0);
    if (refresh > 0.0) x = floor(x / refresh + 1e-9) * refresh;
    double end = x - fact(card, "power_lag_s", 0.0), window = fact(card, "power_window_s", 0.0);
    return shown(card, mean_over(card, POWER, end - window, end), x);
}

double power_average_watts(int card, double x) {
    double over = fact(card, "power_average_s", 1.0);
    return over > 0.0 ? shown(card, mean_over(card, POWER, x - over, x), x) : power_instant_watts(card, x);
}

double energy_joules(int card, double x) {
    double step = fact(card, "energy_refresh_s", 0.1);
    return fact(card, "power_gain", 1.0) * integral_at(card, POWER, floor(x / step) * step);
}

uint64_t byte_counter(int card, enum channel channel, double x) {
    int bits = (int)fact(card, "counter_bits", 32);
    /* Counting began when the driver was loaded, at a different state on each card and direction. */
    uint64_t base = 0x9E3779B97F4A7C15ull * (uint64_t)(2 * card + (channel == PCIE_TX) + 1);
    if (bits >= 64) return (base >> 20) + (uint64_t)integral_at(card, channel, x);
    return ((base >> 32) + (uint64_t)integral_at(card, channel, x)) & ((1ull << bits) - 1);
}

double utilization_percent(int card, enum channel channel, double x) {
    return round(100.0 * mean_over(card, channel, x - fact(card, "utilization_period_s", 0.2), x));
}

unsigned clock_reasons(int card, double x) {
    static const struct { enum channel channel; unsigned bits; } REASONS[] = {
        {SW_POWER_CAP, 0x4}, {SW_THERMAL, 0x20}, {HW_THERMAL, 0x48}, {HW_POWER_BRAKE, 0x88}, {GPU_IDLE, 0x1}};
    unsigned mask = 0;
    for (int i = 0; i < 5; i++)
        if (rate_at(card, REASONS[i].channel, x) >= 0.5) mask |= REASONS[i].bits;
    return mask;
}

/* Fill `out` with the newest samples up to `until`, oldest first; return how many. */
int ring(int card, int kind, double until, struct sample *out, int capacity) {
    int power = kind == POWER_RING;
    double busy = power ? fact(card, "ring_busy_s", 0.02) : fact(card, "utilization_ring_s", 0.139);
    double idle = power ? fact(card, "ring_idle_s", 1.0) : busy;
    int length = (int)(power ? fact(card, "ring_length", 119) : fact(card, "utilization_ring_length", 72));
    double back = wall_s() - until; /* wall time of t = 0 */
    int found = 0;
    if (length > capacity) length = capacity;
    for (int64_t k = (int64_t)floor(until / busy + 1e-9); k > 0 && found < length; k--) {
        double x = (double)k * busy;
        if (until - x > length * idle) break;
        /* While idle only every n-th sample is taken. */
        if (idle > busy && k % llround(idle / busy) != 0 && rate_at(card, GPU_IDLE, x - 1e-6) >= 0.5) continue;
        double value;
        if (power)
            value = 1e3 * power_instant_watts(card, x);
        else if (kind == CLOCK_RING)
            value = round(mean_over(card, SM_CLOCK, x - busy, x) / 1e6);
        else
            value = round(100.0 * mean_over(card, kind == MEMORY_RING ? MEMORY_CONTROLLER : KERNEL, x - busy, x));
        out[length - 1 - found].stamp = (uint64_t)llround((back + x) * 1e6);
        out[length - 1 - found].value = value;
        found++;
    }
    for (int i = 0; i < found; i++) out[i] = out[length - found + i];
    return found;
}
