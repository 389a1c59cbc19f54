/* Entry points that fill arrays: field values, process lists, per-process utilization, sample rings, GPM. */
#include "standin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct handle *device_t;

union value { double d; unsigned u; unsigned long long ull; };
struct field_value {
    unsigned id, scope;
    int64_t stamp_us, latency_us;
    unsigned type;
    int code;
    union value value;
};
struct sample_out { unsigned long long stamp_us; union value value; };
struct process_utilization { unsigned pid; unsigned long long stamp_us; unsigned sm, memory, encoder, decoder; };
struct gpm_support { unsigned version, supported; };
struct gpm_sample { int card; double at_s; };
struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *older, *newer;
    struct { unsigned id; int code; double value; const char *info[3]; } metric[];
};

enum { TYPE_DOUBLE = 0, TYPE_UINT = 1, TYPE_ULL = 3, SCOPE_ALL = 0xFFFFFFFF };

static uint64_t wall_us(void) { return (uint64_t)llround(wall_s() * 1e6); }

/* Field values */

static int newest_field(void) {
    return ERA < 535 ? 165 : ERA < 560 ? 196 : ERA < 580 ? 229 : ERA < 595 ? 273 : 298;
}

static int scripted_field(struct field_value *field, const char *answer) {
    unsigned type = TYPE_ULL;
    if (answer[0] == 't') { /* tTYPE:VALUE */
        type = (unsigned)atoi(answer + 1);
        answer = strchr(answer, ':') + 1;
    }
    field->type = type;
    memset(&field->value, 0xEE, sizeof field->value); /* bytes of the union that the type does not use are not zero */
    if (type == TYPE_DOUBLE)
        field->value.d = atof(answer);
    else if (type == TYPE_UINT)
        field->value.u = (unsigned)strtoull(answer, NULL, 10);
    else
        field->value.ull = strtoull(answer, NULL, 10);
    return SUCCESS;
}

static int number_field(struct field_value *field, double value, unsigned type) {
    if (value < 0.0) return NOT_SUPPORTED;
    field->type = type;
    memset(&field->value, 0, sizeof field->value);
    if (type == TYPE_UINT)
        field->value.u = (unsigned)value;
    else
        field->value.ull = (unsigned long long)value;
    return SUCCESS;
}

static int nvlink_bytes(device_t d, struct field_value *field, enum channel channel, double x) {
    int active = 0, mine = 0;
    for (int link = 0; link < MAX_LINKS; link++)
        if (cards[d->card].peer[link][0]) {
            active++;
            mine |= (unsigned)link == field->scope;
        }
    if (!active || (field->scope != SCOPE_ALL && !mine)) return NOT_SUPPORTED;
    double bytes = integral_at(d->card, channel, x) / (field->scope == SCOPE_ALL ? 1 : active);
    return number_field(field, floor(bytes / 1024.0), TYPE_ULL);
}

static int of_link(unsigned id) { return id == 138 || id == 139 || id == 202 || id == 204; }

static int read_field(device_t d, struct field_value *field, double x) {
    int c = d->card;
    switch (field->id) {
    case 197: case 198: {
        if (fact(c, "counter_bits", 32) == 0.0) return NOT_SUPPORTED;
        field->type = (unsigned)fact(c, "counter_value_type", TYPE_ULL);
        memset(&field->value, 0, sizeof field->value);
        field->value.ull = byte_counter(c, field->id == 197 ? PCIE_TX : PCIE_RX, x);
        if (fault_active(c, "garbage")) field->value.ull = (field->value.ull * 0x9E3779B1u) & 0xFFFFFFFFu;
        return SUCCESS;
    }
    case 186:
        return fact(c, "power_instant", 1) ? number_field(field, 1e3 * power_instant_watts(c, x), TYPE_UINT) : NOT_SUPPORTED;
    case 185: return number_field(field, 1e3 * power_average_watts(c, x), TYPE_UINT);
    case 82: return fact(c, "memory_temperature", 0) ? number_field(field, rate_at(c, TEMPERATURE, x) + 6.0, TYPE_UINT) : NOT_SUPPORTED;
    case 83: return fact(c, "energy", 1) ? number_field(field, 1e3 * energy_joules(c, x), TYPE_ULL) : NOT_SUPPORTED;
    case 74: return number_field(field, 1e9 * integral_at(c, SW_POWER_CAP, x), TYPE_ULL);
    case 76: return number_field(field, 0.0, TYPE_ULL);
    case 269: return number_field(field, 1e9 * integral_at(c, SW_THERMAL, x), TYPE_ULL);
    case 270: return number_field(field, 1e9 * integral_at(c, HW_THERMAL, x), TYPE_ULL);
    case 271: return number_field(field, 1e9 * integral_at(c, HW_POWER_BRAKE, x), TYPE_ULL);
    case 90: {
        int active = 0;
        for (int link = 0; link < MAX_LINKS; link++) active += cards[c].peer[link][0] != 0;
        double usable = fact(c, "nvlink_bytes_per_second", -1.0), scale = fact(c, "nvlink_version", 4) >= 4 ? 17.0 / 16.0 : 1.0;
        return active ? number_field(field, round(usable * scale / active / 1e6), TYPE_UINT) : NOT_SUPPORTED;
    }
    case 138: return nvlink_bytes(d, field, NVLINK_TX, x);
    case 139: return nvlink_bytes(d, field, NVLINK_RX, x);
    case 173: case 179: case 180: return number_field(field, 0.0, TYPE_UINT);
    default: return NOT_SUPPORTED;
    }
}

int nvmlDeviceGetFieldValues(device_t d, int count, struct field_value *fields) {
    CALL(d, "GetFieldValues", -1);
    double x = now_s();
    uint64_t stamp = wall_us();
    for (int i = 0; i < count; i++) {
        struct field_value *field = &fields[i];
        char answer[256];
        field->stamp_us = (int64_t)stamp;
        field->latency_us = 200;
        /* A scripted field is named by its id, that of one link by id + 1000 * (link + 1) or, for all links, its id. */
        int code = -1;
        answer[0] = 0;
        if (of_link(field->id) && field->scope != SCOPE_ALL)
            code = answer_for(d->card, d->slice, "GetFieldValue", (long)field->id + 1000L * (field->scope + 1), answer,
                              sizeof answer);
        if (code < 0 && !answer[0])
            code = answer_for(d->card, d->slice, "GetFieldValue", (long)field->id, answer, sizeof answer);
        if (code < 0)
            code = answer[0] ? scripted_field(field, answer)
                   : (int)field->id > newest_field() ? INVALID_ARGUMENT
                                                     : read_field(d, field, x);
        field->code = code;
    }
    return SUCCESS;
}

/* Process lists */

static void put_process(char *at, int stride, unsigned pid, uint64_t bytes, int slice) {
    unsigned instance = slice < 0 ? 0xFFFFFFFFu : (unsigned)slice;
    uint64_t none = 0;
    memset(at, 0, (size_t)stride);
    memcpy(at, &pid, 4);
    memcpy(at + 8, &bytes, 8);
    if (stride >= 24) {
        memcpy(at + 16, &instance, 4);
        memcpy(at + 20, &instance, 4);
    }
    if (stride >= 32) memcpy(at + 24, &none, 8);
}

/* Scripted: PID/BYTES;PID/BYTES..., BYTES `na` where the driver does not tell, `-` for an empty list. */
static int scripted_processes(const char *answer, struct process *out) {
    int n = 0;
    for (const char *at = answer; at && *at && *at != '-' && n < MAX_ROWS; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        const char *bytes = strchr(at, '/') + 1;
        out[n].pid = (unsigned)strtoull(at, NULL, 10);
        out[n++].bytes = strncmp(bytes, "na", 2) == 0 ? UINT64_MAX : strtoull(bytes, NULL, 10);
    }
    return n;
}

static int processes(device_t d, const char *name, int kind, int version, unsigned *count, char *out) {
    static __thread struct process found[MAX_ROWS];
    CALL(d, name, version);
    int n = 0;
    double x = now_s();
    if (call.answer[0])
        n = scripted_processes(call.answer, found);
    else
        for (int i = 0; i < cards[d->card].process_count; i++) {
            const struct process *process = &cards[d->card].processes[i];
            if (process->kind == kind && process->from_s <= x && x < process->to_s) found[n++] = *process;
        }
    if (!call.answer[0] && fault_active(d->card, "garbage"))
        for (int i = 0; i < 4; i++) found[n++] = (struct process){.pid = 0xFFFFFFFFu - (unsigned)i, .bytes = UINT64_MAX - 1};
    unsigned room = *count;
    *count = (unsigned)n;
    if (n == 0) return SUCCESS;
    if (!out || room < (unsigned)n) return INSUFFICIENT_SIZE;
    int stride = version == 1 ? 16 : (int)fact(-1, "process_stride", 24);
    for (int i = 0; i < n; i++) put_process(out + i * stride, stride, found[i].pid, found[i].bytes, d->slice);
    return SUCCESS;
}

#define PROCESSES(kind, number)                                                                                         \
    int nvmlDeviceGet##kind##RunningProcesses(device_t d, unsigned *count, void *out) {                                 \
        return processes(d, "Get" #kind "RunningProcesses", number, 1, count, out);                                     \
    }                                                                                                                   \
    int nvmlDeviceGet##kind##RunningProcesses_v2(device_t d, unsigned *count, void *out) {                              \
        return processes(d, "Get" #kind "RunningProcesses", number, 2, count, out);                                     \
    }                                                                                                                   \
    int nvmlDeviceGet##kind##RunningProcesses_v3(device_t d, unsigned *count, void *out) {                              \
        return processes(d, "Get" #kind "RunningProcesses", number, 3, count, out);                                     \
    }
PROCESSES(Compute, 0)
PROCESSES(Graphics, 1)
PROCESSES(MPSCompute, 2)

/* Scripted: PID/STAMP/SM/MEMORY;..., STAMP in microseconds or @SECONDS from now; #N;... counts N entries but fills fewer. */
static int scripted_utilization(const char *answer, struct process_utilization *out, unsigned *counted) {
    int n = 0;
    if (*answer == '#') {
        *counted = (unsigned)atoi(answer + 1);
        answer = strchr(answer, ';') + 1;
    }
    for (const char *at = answer; at && *at && n < MAX_ROWS; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        char stamp[40] = "";
        struct process_utilization *row = &out[n++];
        memset(row, 0, sizeof *row);
        sscanf(at, "%u/%39[^/]/%u/%u", &row->pid, stamp, &row->sm, &row->memory);
        row->stamp_us = stamp_us(stamp);
    }
    return n;
}

int nvmlDeviceGetProcessUtilization(device_t d, struct process_utilization *out, unsigned *count,
                                    unsigned long long since_us) {
    static __thread struct process_utilization found[MAX_ROWS];
    CALL(d, "GetProcessUtilization", -1);
    unsigned counted = 0;
    int n = 0;
    if (call.answer[0])
        n = scripted_utilization(call.answer, found, &counted);
    else {
        if (fact(d->card, "process_util", 1) == 0.0 || cards[d->card].slice_count) return NOT_SUPPORTED;
        double x = now_s(), at = floor(x / 0.139) * 0.139;
        uint64_t stamp = (uint64_t)llround((wall_s() - x + at) * 1e6);
        for (int i = 0; i < cards[d->card].process_count; i++) {
            const struct process *process = &cards[d->card].processes[i];
            if (process->from_s > at || at >= process->to_s || stamp <= since_us) continue;
            double sm = 100.0 * process->sm_ratio * mean_over(d->card, KERNEL, at - 1.0, at);
            if (sm < 0.5) continue;
            found[n++] = (struct process_utilization){process->pid, stamp, (unsigned)round(sm), 0, 0, 0};
        }
    }
    if (n == 0) return NOT_FOUND;
    if (counted < (unsigned)n) counted = (unsigned)n;
    unsigned room = *count;
    *count = counted;
    if (!out || room < counted) return INSUFFICIENT_SIZE;
    memcpy(out, found, (size_t)n * sizeof *out);
    return SUCCESS;
}

/* Sample rings */

/* Scripted: STAMP/VALUE;... */
int nvmlDeviceGetSamples(device_t d, unsigned kind, unsigned long long since_us, unsigned *type, unsigned *count,
                         struct sample_out *out) {
    CALL(d, "GetSamples", kind);
    struct sample found[256];
    int n = 0;
    if (call.answer[0]) {
        for (const char *at = call.answer; at && *at && n < 256; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
            found[n].stamp = stamp_us(at);
            found[n++].value = atof(strchr(at, '/') + 1);
        }
    } else {
        if (kind != 0 && kind != 1 && kind != 2 && kind != 5) return NOT_SUPPORTED;
        if (kind != 0 && cards[d->card].slice_count) return NOT_SUPPORTED;
        n = ring(d->card, (int)kind, now_s(), found, 256);
    }
    int first = 0;
    while (first < n && found[first].stamp <= since_us) first++;
    if (first == n) return NOT_FOUND;
    unsigned room = *count;
    *type = TYPE_UINT;
    *count = (unsigned)(n - first);
    if (!out) return SUCCESS;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (int i = first; i < n; i++) {
        out[i - first].stamp_us = found[i].stamp;
        out[i - first].value.ull = 0xEEEEEEEEEEEEEEEEull; /* only the type's bytes are filled */
        out[i - first].value.u = (unsigned)llround(found[i].value);
    }
    return SUCCESS;
}

/* GPM */

int nvmlGpmQueryDeviceSupport(device_t d, struct gpm_support *out) {
    CALL(d, "GpmQueryDeviceSupport", -1);
    if (out->version != 1) return VERSION_MISMATCH;
    out->supported = fact(d->card, "gpm", 0) != 0.0;
    return SUCCESS;
}

int nvmlGpmSampleAlloc(struct gpm_sample **sample) {
    if (!initialised()) return UNINITIALIZED;
    *sample = calloc(1, sizeof **sample);
    (*sample)->card = -1;
    return SUCCESS;
}

int nvmlGpmSampleFree(struct gpm_sample *sample) {
    free(sample);
    return SUCCESS;
}

int nvmlGpmSampleGet(device_t d, struct gpm_sample *sample) {
    CALL(d, "GpmSampleGet", -1);
    if (fact(d->card, "gpm", 0) == 0.0) return NOT_SUPPORTED;
    sample->card = d->card;
    sample->at_s = now_s();
    return SUCCESS;
}

static double gpm_value(int card, unsigned id, double a, double b) {
    static const struct { unsigned id; enum channel channel; double scale; } METRICS[] = {
        {1, KERNEL, 100.0}, {2, SM_ACTIVE, 100.0}, {3, SM_OCCUPANCY, 100.0}, {5, TENSOR_ACTIVE, 100.0},
        {10, DRAM_ACTIVE, 100.0}, {20, PCIE_TX, 1.0 / 1048576.0}, {21, PCIE_RX, 1.0 / 1048576.0},
        {60, NVLINK_RX, 1.0 / 1048576.0}, {61, NVLINK_TX, 1.0 / 1048576.0}};
    for (size_t i = 0; i < sizeof METRICS / sizeof METRICS[0]; i++)
        if (METRICS[i].id == id) return METRICS[i].scale * mean_over(card, METRICS[i].channel, a, b);
    return NAN;
}

int nvmlGpmMetricsGet(struct gpm_metrics *query) {
    if (!initialised()) return UNINITIALIZED;
    if (query->version != 1) return VERSION_MISMATCH;
    struct gpm_sample *older = query->older, *newer = query->newer;
    if (!older || !newer || older->card < 0 || older->card != newer->card) {
        violation("GPM pair without two samples of one card");
        return INVALID_ARGUMENT;
    }
    int early = newer->at_s - older->at_s <= 0.1;
    if (early) violation("GPM samples less than 100 ms apart");
    for (unsigned i = 0; i < query->count; i++) {
        char answer[64];
        int code = answer_for(older->card, -1, "GpmMetric", (long)query->metric[i].id, answer, sizeof answer);
        double value = answer[0] ? atof(answer) : gpm_value(older->card, query->metric[i].id, older->at_s, newer->at_s);
        query->metric[i].code = code > 0 ? code : isnan(value) ? NOT_SUPPORTED : early ? NO_DATA : SUCCESS;
        query->metric[i].value = value;
    }
    return SUCCESS;
}
