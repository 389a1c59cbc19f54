/* Entry points of the library as a whole: initialising, handles, texts, events, pairs of cards, MIG slices. */
#include "standin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct handle *device_t;

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct event_data {
    device_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct event_set {
    int count;
    struct { device_t device; double since_s; } entry[MAX_CARDS];
};

enum { XID_EVENT = 0x8 };

int nvmlInitWithFlags(unsigned flags) { (void)flags; return library_up(1); }
int nvmlInit_v2(void) { return library_up(1); }
int nvmlShutdown(void) { return library_up(-1); }
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "error %d", code); return text; }

static int text_out(const char *text, char *out, unsigned length) {
    if (strncmp(text, "x:", 2) == 0) { /* raw bytes in hexadecimal */
        unsigned n = 0, byte;
        for (const char *at = text + 2; n + 1 < length && sscanf(at, "%2x", &byte) == 1; at += 2) out[n++] = (char)byte;
        out[n] = 0;
        return SUCCESS;
    }
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    if (!initialised()) return UNINITIALIZED;
    char era[16];
    snprintf(era, sizeof era, "%d.00", ERA);
    return text_out(fact_text(-1, "driver_version", era), out, length);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    char version[24];
    snprintf(version, sizeof version, "12.%d.00", ERA);
    return initialised() ? text_out(version, out, length) : UNINITIALIZED;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char answer[64];
    if (!initialised()) return UNINITIALIZED;
    int code = answer_for(-1, -1, "GetCount", -1, answer, sizeof answer);
    if (code >= 0) return code;
    *count = answer[0] ? (unsigned)atoi(answer) : (unsigned)card_count;
    return SUCCESS;
}

static int lookup(int card, device_t *device) {
    char answer[64];
    int code = answer_for(card, -1, "GetHandle", -1, answer, sizeof answer);
    if (code > 0) return code;
    *device = strcmp(answer, "null") == 0 ? NULL : new_handle(card, -1);
    return SUCCESS;
}

/* Cards are found by NVML index, which a reload can change: fact nvml_index. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    if (!initialised()) return UNINITIALIZED;
    for (int card = 0; card < card_count; card++)
        if ((int)fact(card, "nvml_index", card) == (int)index) return lookup(card, device);
    return INVALID_ARGUMENT;
}

static const char *uuid_of(int card) {
    static __thread char made[64];
    snprintf(made, sizeof made, "GPU-00000000-0000-4000-8000-%012d", card);
    return fact_text(card, "uuid", made);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    if (!initialised()) return UNINITIALIZED;
    for (int card = 0; card < card_count; card++)
        if (strcmp(uuid_of(card), uuid) == 0) return lookup(card, device);
    return NOT_FOUND;
}

/* Texts and identity */

int nvmlDeviceGetUUID(device_t d, char *out, unsigned length) {
    CALL(d, "GetUUID", -1);
    return text_out(d->slice < 0 ? uuid_of(d->card) : cards[d->card].slices[d->slice].uuid, out, length);
}

int nvmlDeviceGetName(device_t d, char *out, unsigned length) {
    CALL(d, "GetName", -1);
    if (call.answer[0]) return text_out(call.answer, out, length);
    char name[160];
    const char *board = fact_text(d->card, "name", "NVIDIA Stand-in");
    if (d->slice < 0) return text_out(board, out, length);
    snprintf(name, sizeof name, "%s MIG %s", board, cards[d->card].slices[d->slice].profile);
    return text_out(name, out, length);
}

static void bus_id_of(int card, char *out, size_t size) {
    char made[32];
    snprintf(made, sizeof made, "00000000:%02X:00.0", card + 1);
    snprintf(out, size, "%s", fact_text(card, "bus_id", made));
}

int nvmlDeviceGetPciInfo_v3(device_t d, struct pci_info *info) {
    CALL(d, "GetPciInfo", -1);
    memset(info, 0, sizeof *info);
    bus_id_of(d->card, info->bus_id, sizeof info->bus_id);
    return SUCCESS;
}

static int number(struct call *call, double otherwise, unsigned *out) {
    double value = call->answer[0] ? atof(call->answer) : otherwise;
    if (value < 0) return NOT_SUPPORTED;
    *out = (unsigned)value;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(device_t d, unsigned *out) {
    CALL(d, "GetMinorNumber", -1);
    return number(&call, fact(d->card, "minor", d->card), out);
}

int nvmlDeviceGetArchitecture(device_t d, unsigned *out) {
    CALL(d, "GetArchitecture", -1);
    return number(&call, fact(d->card, "architecture", 8), out);
}

int nvmlDeviceGetNumaNodeId(device_t d, unsigned *out) {
    CALL(d, "GetNumaNodeId", -1);
    return number(&call, fact(d->card, "numa_node", -1), out);
}

/* Pairs of cards */

int nvmlDeviceGetTopologyCommonAncestor(device_t a, device_t b, unsigned *level) {
    CALL(a, "GetTopologyCommonAncestor", b ? b->card : -1);
    *level = (unsigned)p2p_level(a->card, b->card);
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(device_t a, device_t b, unsigned capability, unsigned *status) {
    CALL(a, "GetP2PStatus", capability);
    *status = call.answer[0] ? (unsigned)atoi(call.answer) : (unsigned)p2p_status(a->card, b->card);
    return SUCCESS;
}

/* NVLink */

static int link_known(device_t d, unsigned link) {
    unsigned most = ERA < 535 ? 12 : 18;
    return link < most && link < (unsigned)fact(d->card, "nvlink_links", 0);
}

int nvmlDeviceGetNvLinkState(device_t d, unsigned link, unsigned *state) {
    CALL(d, "GetNvLinkState", link);
    if (!link_known(d, link)) return fact(d->card, "nvlink_links", 0) > 0 ? INVALID_ARGUMENT : NOT_SUPPORTED;
    return number(&call, cards[d->card].peer[link][0] ? 1 : 0, state);
}

int nvmlDeviceGetNvLinkVersion(device_t d, unsigned link, unsigned *version) {
    CALL(d, "GetNvLinkVersion", link);
    if (!link_known(d, link)) return NOT_SUPPORTED;
    /* The timeline file has it as people write it, NVML as a number of its own. */
    static const char *const VERSIONS[] = {"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"};
    const char *text = fact_text(d->card, "nvlink_version", "4.0");
    for (unsigned v = 1; v < sizeof VERSIONS / sizeof VERSIONS[0]; v++)
        if (strcmp(VERSIONS[v], text) == 0) return number(&call, v, version);
    return UNKNOWN;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(device_t d, unsigned link, unsigned *type) {
    CALL(d, "GetNvLinkRemoteDeviceType", link);
    if (!link_known(d, link) || !cards[d->card].peer[link][0]) return NOT_SUPPORTED;
    *type = strcmp(cards[d->card].peer[link], "switch") == 0 ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t d, unsigned link, struct pci_info *info) {
    CALL(d, "GetNvLinkRemotePciInfo", link);
    if (!link_known(d, link) || !cards[d->card].peer[link][0]) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    bus_id_of(atoi(cards[d->card].peer[link]), info->bus_id, sizeof info->bus_id);
    return SUCCESS;
}

/* MIG */

int nvmlDeviceGetMigMode(device_t d, unsigned *current, unsigned *pending) {
    CALL(d, "GetMigMode", -1);
    if (!cards[d->card].slice_count && !fact(d->card, "mig", 0)) return NOT_SUPPORTED;
    *current = *pending = cards[d->card].slice_count > 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t d, unsigned *count) {
    CALL(d, "GetMaxMigDeviceCount", -1);
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t d, unsigned index, device_t *slice) {
    CALL(d, "GetMigDeviceHandleByIndex", index);
    if (index >= (unsigned)cards[d->card].slice_count) return NOT_FOUND;
    *slice = new_handle(d->card, (int)index);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(device_t d, unsigned *id) {
    CALL(d, "GetGpuInstanceId", -1);
    if (d->slice < 0) return NOT_SUPPORTED;
    *id = cards[d->card].slices[d->slice].gpu_instance;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(device_t d, unsigned *id) {
    CALL(d, "GetComputeInstanceId", -1);
    if (d->slice < 0) return NOT_SUPPORTED;
    *id = cards[d->card].slices[d->slice].compute_instance;
    return SUCCESS;
}

/* Events */

int nvmlEventSetCreate(struct event_set **set) {
    if (!initialised()) return UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set) {
    free(set);
    return initialised() ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetSupportedEventTypes(device_t d, unsigned long long *types) {
    CALL(d, "GetSupportedEventTypes", -1);
    *types = call.answer[0] ? strtoull(call.answer, NULL, 0) : XID_EVENT;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(device_t d, unsigned long long types, struct event_set *set) {
    CALL(d, "RegisterEvents", -1);
    if (types & ~(unsigned long long)XID_EVENT) return NOT_SUPPORTED;
    set->entry[set->count].device = d;
    set->entry[set->count++].since_s = now_s();
    return SUCCESS;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *event, unsigned timeout_ms) {
    int64_t began __attribute__((cleanup(inside_since))) = thread_cpu_ns(); /* a real one sleeps in the kernel */
    (void)began;
    double end = monotonic_s() + timeout_ms / 1e3;
    if (!initialised()) return UNINITIALIZED;
    char answer[64];
    int code = answer_for(-1, -1, "EventSetWait", -1, answer, sizeof answer);
    if (code > 0) return code;
    for (;;) {
        double x = now_s();
        for (int i = 0; i < set->count; i++) {
            double at;
            unsigned xid;
            if (!next_xid(set->entry[i].device->card, set->entry[i].since_s, x, &xid, &at)) continue;
            set->entry[i].since_s = at;
            memset(event, 0, sizeof *event);
            event->device = set->entry[i].device;
            event->type = XID_EVENT;
            event->data = xid;
            return SUCCESS;
        }
        if (monotonic_s() >= end) return TIMEOUT;
        sleep_s(fmin(0.02, fmax(1e-4, end - monotonic_s())));
        if (!initialised()) return UNINITIALIZED;
    }
}
