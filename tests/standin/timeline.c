/* The physical truth of a run, from the simulator's timeline file or from constant rates set by the script. */
#include "standin.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SPUN_S 2e-4

static const char *const NAMES[CHANNELS] = {
    "pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx", "power", "kernel", "memory_controller", "sm_active",
    "sm_occupancy", "tensor_active", "dram_active", "sm_clock", "memory_clock", "temperature", "memory_used",
    "link_generation", "link_width", "pcie_replays", "sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake",
    "gpu_idle"};

static const double SETTING_UP_S = 0.05;
static double epoch = -1.0;    /* monotonic time of t = 0 */
static double duration = 1e18; /* a file ends here and keeps its last rates */
static double wall_shift = 0.0;

double monotonic_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double wall_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + wall_shift;
}

void shift_wall(double seconds) { wall_shift = seconds; }
void set_epoch(double mono_s) { epoch = mono_s; }
double epoch_s(void) { return epoch; }

double now_s(void) {
    if (epoch < 0.0) epoch = monotonic_s();
    return fmin(monotonic_s() - epoch, duration);
}

void sleep_s(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) != 0) {
    }
}

/* A sleep overruns by the kernel's slack of 0.05 ms and by what the processors are busy with: the end is spun. */
void take_s(double seconds) {
    double end = monotonic_s() + seconds;
    if (seconds > SPUN_S) sleep_s(seconds - SPUN_S);
    while (monotonic_s() < end) {
    }
}

void load_timeline(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        fprintf(stderr, "stand-in: %s cannot be read\n", path);
        abort();
    }
    const char *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    const uint32_t *header = (const uint32_t *)(base + 8);
    if (base == MAP_FAILED || memcmp(base, "GPUMONT1", 8) != 0 || header[2] != CHANNELS || header[1] > MAX_CARDS) {
        fprintf(stderr, "stand-in: %s is not a timeline of %d channels\n", path, CHANNELS);
        abort();
    }
    uint32_t text_bytes = header[0], count = header[1];
    memcpy(&duration, base + 24, 8);
    const uint64_t *sizes = (const uint64_t *)(base + 32);
    const char *text = base + 32 + 8 * count;
    const double *block = (const double *)(text + text_bytes);
    for (uint32_t c = 0; c < count; c++) {
        struct timeline *line = &cards[c].timeline;
        line->n = sizes[c];
        line->t = block;
        line->rate = line->t + line->n;
        line->cumulative = line->rate + CHANNELS * line->n;
        block = line->cumulative + CHANNELS * line->n;
        cards[c].present = 1;
    }
    if ((int)count > card_count) card_count = (int)count;
    char line[4096];
    for (const char *at = text; at < text + text_bytes && *at; at = strchr(at, '\n') + 1) {
        size_t length = (size_t)(strchr(at, '\n') - at);
        if (length >= sizeof line) continue;
        memcpy(line, at, length);
        line[length] = 0;
        standin_apply(line);
    }
}

/* A constant rate from now on, or from the last change when that was just made: one more stretch on a timeline that this library owns. */
void set_rate(int card, const char *channel, double value) {
    struct timeline *line = &cards[card].timeline;
    double x = now_s();
    size_t n = line->n;
    if (n && x - line->t[n - 1] < SETTING_UP_S) { /* the same scene is still being set */
        for (int c = 0; c < CHANNELS; c++)
            if (strcmp(channel, NAMES[c]) == 0) ((double *)line->rate)[(size_t)c * n + n - 1] = value;
        return;
    }
    double *t = calloc((n + 1) * (1 + 2 * CHANNELS), sizeof *t), *rate = t + n + 1;
    double *cumulative = rate + CHANNELS * (n + 1);
    if (n) memcpy(t, line->t, n * sizeof *t);
    t[n] = n ? x : 0.0;
    for (int c = 0; c < CHANNELS; c++) {
        for (size_t i = 0; i < n; i++) {
            rate[(size_t)c * (n + 1) + i] = line->rate[(size_t)c * n + i];
            cumulative[(size_t)c * (n + 1) + i] = line->cumulative[(size_t)c * n + i];
        }
        double last = n ? line->rate[(size_t)c * n + n - 1] : 0.0;
        rate[(size_t)c * (n + 1) + n] = strcmp(channel, NAMES[c]) == 0 ? value : last;
        cumulative[(size_t)c * (n + 1) + n] = n ? integral_at(card, (enum channel)c, x) : 0.0;
    }
    line->t = t;
    line->rate = rate;
    line->cumulative = cumulative;
    line->n = n + 1;
}

static size_t stretch(const struct timeline *line, double x) {
    size_t low = 0, high = line->n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (line->t[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double rate_at(int card, enum channel channel, double x) {
    const struct timeline *line = &cards[card].timeline;
    return line->n ? line->rate[channel * line->n + stretch(line, x)] : 0.0;
}

double integral_at(int card, enum channel channel, double x) {
    const struct timeline *line = &cards[card].timeline;
    if (!line->n || x <= 0.0) return 0.0;
    size_t i = stretch(line, x), at = channel * line->n + i;
    return line->cumulative[at] + line->rate[at] * (x - line->t[i]);
}

double mean_over(int card, enum channel channel, double a, double b) {
    if (a < 0.0) a = 0.0;
    if (b <= a) return rate_at(card, channel, b);
    return (integral_at(card, channel, b) - integral_at(card, channel, a)) / (b - a);
}
