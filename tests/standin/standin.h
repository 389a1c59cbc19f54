/* The stand-in driver library: what its parts share.
 *
 * script.c    cards, scripted answers, faults, what was called and what must never be
 * timeline.c  the physical truth of a run: rates and integrals of each channel at a time
 * sensors.c   what the driver's sensors make of it: windows, averages, rings, counters that wrap
 * api_*.c     the entry points, with the layouts of nvml.h
 *
 * Every value comes from a scripted answer where there is one, else from the sensors over the timeline.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifndef ERA
#define ERA 595
#endif

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    NO_DATA = 21,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999
};

enum { MAX_CARDS = 16, MAX_SLICES = 8, MAX_LINKS = 36, MAX_ROWS = 256 };

/* Channels of the timeline file, in its order. */
enum channel {
    PCIE_RX, PCIE_TX, NVLINK_RX, NVLINK_TX, POWER, KERNEL, MEMORY_CONTROLLER, SM_ACTIVE, SM_OCCUPANCY, TENSOR_ACTIVE,
    DRAM_ACTIVE, SM_CLOCK, MEMORY_CLOCK, TEMPERATURE, MEMORY_USED, LINK_GENERATION, LINK_WIDTH, PCIE_REPLAYS,
    SW_POWER_CAP, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE, GPU_IDLE, CHANNELS
};

/* What the library gives out as nvmlDevice_t. Never freed, so that a stale one is recognised instead of crashing. */
struct handle {
    int card;
    int slice; /* -1: the board */
    unsigned generation;
    int told_lost;
};

struct process {
    unsigned pid;
    int kind; /* 0 compute, 1 graphics, 2 mps */
    uint64_t bytes;
    double from_s, to_s, sm_ratio;
};

struct slice {
    char uuid[96], profile[32];
    unsigned gpu_instance, compute_instance;
    uint64_t total, used;
};

struct timeline {
    size_t n;
    const double *t, *rate, *cumulative; /* rate and cumulative: CHANNELS rows of n */
};

struct card {
    int present;
    struct timeline timeline;
    struct process processes[MAX_ROWS];
    int process_count;
    struct slice slices[MAX_SLICES];
    int slice_count;
    char peer[MAX_LINKS][24]; /* "" inactive, "switch", or a card's index */
};

extern struct card cards[MAX_CARDS];
extern int card_count;

/* script.c */
struct call {
    struct handle *device;
    int code;         /* what to return at once; -1: go on */
    char answer[4096]; /* scripted value; "" none */
    int attempt_count; /* count that goes with a scripted INSUFFICIENT_SIZE, -1 none */
    int64_t cpu_ns;    /* of this thread when the call began */
    double began_s, ends_s; /* monotonic; a call may have to last until then */
};
void call_begin(struct call *call, struct handle *device, const char *name, long argument);
void call_end(struct call *call);
int64_t thread_cpu_ns(void);
void inside_since(int64_t *cpu_ns); /* what the thread has computed since belongs to the stand-in */
#define CALL(device, name, argument)                                                                                    \
    struct call call __attribute__((cleanup(call_end)));                                                                \
    call_begin(&call, device, name, argument);                                                                          \
    if (call.code >= 0) return call.code

int answer_for(int card, int slice, const char *name, long argument, char *answer, size_t size);
void standin_apply(const char *line);
double fact(int card, const char *key, double otherwise);
const char *fact_text(int card, const char *key, const char *otherwise);
int fault_active(int card, const char *kind);
int next_xid(int card, double after_s, double until_s, unsigned *code, double *at_s);
uint64_t ecc_errors(int card, int uncorrected);
int p2p_level(int a, int b), p2p_status(int a, int b);
void violation(const char *what);
struct handle *new_handle(int card, int slice);
int initialised(void);
int library_up(int delta);
uint64_t stamp_us(const char *text);

/* timeline.c */
double now_s(void);        /* on the timeline */
double monotonic_s(void);
double wall_s(void);       /* with the scripted step */
void shift_wall(double seconds);
void set_epoch(double mono_s);
double epoch_s(void);
void load_timeline(const char *path);
void set_rate(int card, const char *channel, double value);
double rate_at(int card, enum channel channel, double x);
double integral_at(int card, enum channel channel, double x);
double mean_over(int card, enum channel channel, double a, double b);
void sleep_s(double seconds);
void take_s(double seconds);

/* sensors.c */
struct sample { uint64_t stamp; double value; };
double power_instant_watts(int card, double x);
double power_average_watts(int card, double x);
double energy_joules(int card, double x);
uint64_t byte_counter(int card, enum channel channel, double x);
int ring(int card, int kind, double until, struct sample *out, int capacity);
double utilization_percent(int card, enum channel channel, double x);
unsigned clock_reasons(int card, double x);

#endif
