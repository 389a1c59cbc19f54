/* Entry points that answer with one value or a small struct. */
#include "standin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct handle *device_t;

struct utilization { unsigned gpu, memory; };
struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct pstates { unsigned flags; struct { unsigned present, percent, low, high; } domain[8]; };
struct temperature { unsigned version, sensor; int celsius; };

/* An ability that the card does not have: any fact of 0. */
#define NEEDS(key, otherwise)                                                                                           \
    if (!call.answer[0] && fact(d->card, key, otherwise) == 0.0) return NOT_SUPPORTED

/* The board's quantities are refused on a slice. */
#define BOARD_ONLY                                                                                                      \
    if (!call.answer[0] && d->slice >= 0) return NOT_SUPPORTED

static int value(const struct call *call, double otherwise, unsigned *out) {
    double number = call->answer[0] ? atof(call->answer) : otherwise;
    if (number < 0.0 || isnan(number)) return NOT_SUPPORTED;
    *out = (unsigned)number;
    return SUCCESS;
}

static int garbage(device_t d) { return fault_active(d->card, "garbage"); }

int nvmlDeviceGetUtilizationRates(device_t d, struct utilization *out) {
    CALL(d, "GetUtilizationRates", -1);
    if (call.answer[0]) return sscanf(call.answer, "%u,%u", &out->gpu, &out->memory) == 2 ? SUCCESS : UNKNOWN;
    if (d->slice >= 0 || cards[d->card].slice_count) return NOT_SUPPORTED;
    double x = now_s();
    out->gpu = garbage(d) ? 4294967295u : (unsigned)utilization_percent(d->card, KERNEL, x);
    out->memory = (unsigned)utilization_percent(d->card, MEMORY_CONTROLLER, x);
    return SUCCESS;
}

int nvmlDeviceGetDynamicPstatesInfo(device_t d, struct pstates *out) {
    CALL(d, "GetDynamicPstatesInfo", -1);
    BOARD_ONLY;
    NEEDS("bus_busy", 0);
    memset(out, 0, sizeof *out);
    out->domain[3].present = 1;
    double x = now_s(), rate = fmax(mean_over(d->card, PCIE_RX, x - 1.0, x), mean_over(d->card, PCIE_TX, x - 1.0, x));
    double line = fact(d->card, "link_width_max", 16) * 1e9 * pow(2.0, fact(d->card, "link_generation_max", 4) - 3.0);
    out->domain[3].percent = call.answer[0] ? (unsigned)atoi(call.answer) : (unsigned)fmin(100.0, 100.0 * rate / line);
    return SUCCESS;
}

static uint64_t total_bytes(device_t d) {
    return d->slice >= 0 ? cards[d->card].slices[d->slice].total
                         : (uint64_t)fact(d->card, "memory_total_bytes", 34359738368.0);
}

static uint64_t used_bytes(device_t d) {
    if (d->slice >= 0) return cards[d->card].slices[d->slice].used;
    return (uint64_t)rate_at(d->card, MEMORY_USED, now_s());
}

/* Scripted: TOTAL,RESERVED,USED. */
static void memory_of(device_t d, const char *answer, unsigned long long *total, unsigned long long *reserved,
                      unsigned long long *used) {
    *total = total_bytes(d);
    *reserved = d->slice >= 0 ? 0 : (uint64_t)fact(d->card, "memory_reserved_bytes", 524288000.0);
    *used = used_bytes(d);
    if (answer[0]) sscanf(answer, "%llu,%llu,%llu", total, reserved, used);
}

int nvmlDeviceGetMemoryInfo(device_t d, struct memory *out) {
    CALL(d, "GetMemoryInfo", -1);
    unsigned long long total, reserved, used;
    memory_of(d, call.answer, &total, &reserved, &used);
    out->total = total;
    out->used = used + reserved;
    out->free = total - out->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device_t d, struct memory_v2 *out) {
    CALL(d, "GetMemoryInfo_v2", -1);
    if (out->version != (sizeof *out | 2u << 24)) return VERSION_MISMATCH;
    unsigned long long total, reserved, used;
    memory_of(d, call.answer, &total, &reserved, &used);
    out->total = total;
    out->reserved = reserved;
    out->used = used;
    out->free = total - used - reserved;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(device_t d, unsigned *out) {
    CALL(d, "GetPowerUsage", -1);
    BOARD_ONLY;
    return value(&call, 1e3 * power_average_watts(d->card, now_s()), out);
}

int nvmlDeviceGetEnforcedPowerLimit(device_t d, unsigned *out) {
    CALL(d, "GetEnforcedPowerLimit", -1);
    BOARD_ONLY;
    return value(&call, 1e3 * fact(d->card, "power_limit_watts", 450), out);
}

int nvmlDeviceGetPowerManagementDefaultLimit(device_t d, unsigned *out) {
    CALL(d, "GetPowerManagementDefaultLimit", -1);
    BOARD_ONLY;
    return value(&call, 1e3 * fact(d->card, "power_default_limit_watts", 450), out);
}

int nvmlDeviceGetTotalEnergyConsumption(device_t d, unsigned long long *out) {
    CALL(d, "GetTotalEnergyConsumption", -1);
    BOARD_ONLY;
    NEEDS("energy", 1);
    *out = call.answer[0] ? strtoull(call.answer, NULL, 10) : (uint64_t)(1e3 * energy_joules(d->card, now_s()));
    if (!call.answer[0] && garbage(d)) *out += 1ull << 60;
    return SUCCESS;
}

static double temperature_of(device_t d) {
    double celsius = rate_at(d->card, TEMPERATURE, now_s());
    return celsius > 0.0 ? celsius : 35.0;
}

int nvmlDeviceGetTemperature(device_t d, unsigned sensor, unsigned *out) {
    CALL(d, "GetTemperature", sensor);
    BOARD_ONLY;
    return value(&call, temperature_of(d), out);
}

int nvmlDeviceGetTemperatureV(device_t d, struct temperature *out) {
    CALL(d, "GetTemperatureV", out->sensor);
    BOARD_ONLY;
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    unsigned celsius;
    int code = value(&call, temperature_of(d), &celsius);
    out->celsius = (int)celsius;
    return code;
}

int nvmlDeviceGetTemperatureThreshold(device_t d, unsigned kind, unsigned *out) {
    CALL(d, "GetTemperatureThreshold", kind);
    return value(&call, kind == 1 ? fact(d->card, "temperature_slowdown_celsius", 92) : -1.0, out);
}

static double clock_of(device_t d, unsigned domain, double otherwise) {
    double hertz = rate_at(d->card, domain == 1 ? SM_CLOCK : MEMORY_CLOCK, now_s());
    return (hertz > 0.0 ? hertz : otherwise) / 1e6;
}

int nvmlDeviceGetClockInfo(device_t d, unsigned domain, unsigned *out) {
    CALL(d, "GetClockInfo", domain);
    BOARD_ONLY;
    return value(&call, clock_of(d, domain, 210e6), out);
}

int nvmlDeviceGetMaxClockInfo(device_t d, unsigned domain, unsigned *out) {
    CALL(d, "GetMaxClockInfo", domain);
    BOARD_ONLY;
    double sm = fact(d->card, "sm_clock_max_hertz", 2520e6), memory = fact(d->card, "memory_clock_max_hertz", 10501e6);
    return value(&call, (domain == 1 ? sm : memory) / 1e6, out);
}

static int reasons(device_t d, const struct call *call, unsigned long long *out) {
    *out = call->answer[0] ? strtoull(call->answer, NULL, 0) : clock_reasons(d->card, now_s());
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(device_t d, unsigned long long *out) {
    CALL(d, "GetCurrentClocksEventReasons", -1);
    BOARD_ONLY;
    return reasons(d, &call, out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *out) {
    CALL(d, "GetCurrentClocksThrottleReasons", -1);
    BOARD_ONLY;
    return reasons(d, &call, out);
}

/* Links */

int nvmlDeviceGetCurrPcieLinkGeneration(device_t d, unsigned *out) {
    CALL(d, "GetCurrPcieLinkGeneration", -1);
    double generation = rate_at(d->card, LINK_GENERATION, now_s());
    return value(&call, generation > 0 ? generation : fact(d->card, "link_generation_max", 4), out);
}

int nvmlDeviceGetMaxPcieLinkGeneration(device_t d, unsigned *out) {
    CALL(d, "GetMaxPcieLinkGeneration", -1);
    return value(&call, fact(d->card, "link_generation_max", 4), out);
}

int nvmlDeviceGetGpuMaxPcieLinkGeneration(device_t d, unsigned *out) {
    CALL(d, "GetGpuMaxPcieLinkGeneration", -1);
    return value(&call, fact(d->card, "card_generation_max", fact(d->card, "link_generation_max", 4)), out);
}

int nvmlDeviceGetCurrPcieLinkWidth(device_t d, unsigned *out) {
    CALL(d, "GetCurrPcieLinkWidth", -1);
    double lanes = rate_at(d->card, LINK_WIDTH, now_s());
    return value(&call, lanes > 0 ? lanes : fact(d->card, "link_width_max", 16), out);
}

int nvmlDeviceGetMaxPcieLinkWidth(device_t d, unsigned *out) {
    CALL(d, "GetMaxPcieLinkWidth", -1);
    return value(&call, fact(d->card, "link_width_max", 16), out);
}

int nvmlDeviceGetPcieReplayCounter(device_t d, unsigned *out) {
    CALL(d, "GetPcieReplayCounter", -1);
    BOARD_ONLY;
    return value(&call, floor(integral_at(d->card, PCIE_REPLAYS, now_s())), out);
}

/* Watches one direction for 20 ms and sleeps meanwhile; with queue_windows, all cards' windows one after the other. */
int nvmlDeviceGetPcieThroughput(device_t d, unsigned counter, unsigned *out) {
    static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
    CALL(d, "GetPcieThroughput", counter);
    BOARD_ONLY;
    NEEDS("window", 1);
    enum channel channel = counter == 0 ? PCIE_TX : PCIE_RX;
    double window = fact(d->card, "window_s", 0.02);
    int queued = fact(-1, "queue_windows", 0) != 0.0;
    if (queued) pthread_mutex_lock(&queue);
    double from = now_s();
    sleep_s(window);
    double until = now_s();
    if (queued) pthread_mutex_unlock(&queue);
    /* The driver's window is as long as it says; what the sleep overran is not watched. */
    double bytes_per_second = mean_over(d->card, channel, fmax(from, until - window), until);
    if (garbage(d)) bytes_per_second = 1e13;
    return value(&call, bytes_per_second / 1e3, out);
}

/* Health */

int nvmlDeviceGetEccMode(device_t d, unsigned *current, unsigned *pending) {
    CALL(d, "GetEccMode", -1);
    const char *mode = call.answer[0] ? call.answer : fact_text(d->card, "ecc", "unsupported");
    if (strcmp(mode, "unsupported") == 0) return NOT_SUPPORTED;
    *current = *pending = strcmp(mode, "enabled") == 0;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(device_t d, unsigned kind, unsigned counter, unsigned long long *out) {
    CALL(d, "GetTotalEccErrors", kind);
    (void)counter;
    *out = call.answer[0] ? strtoull(call.answer, NULL, 10) : ecc_errors(d->card, (int)kind);
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(device_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    CALL(d, "GetRemappedRows", -1);
    if (!call.answer[0] && strcmp(fact_text(d->card, "ecc", "unsupported"), "enabled") != 0) return NOT_SUPPORTED;
    *corrected = *uncorrected = *pending = *failed = 0;
    if (call.answer[0]) sscanf(call.answer, "%u,%u,%u,%u", corrected, uncorrected, pending, failed);
    return SUCCESS;
}
