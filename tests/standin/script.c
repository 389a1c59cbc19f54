/* Cards, scripted answers, faults, and what is written down about the calls.
 *
 * The script is lines of words. It comes from the test in the same process (standin_apply), or from the file named by
 * STANDIN_SCRIPT, which is followed as it grows. Lines of the timeline file (node, card, process, p2p, nvlink_peer,
 * fault, xid, ecc) mean the same here; AT_S or FROM_S may be `now`. Further lines:
 *
 *   mig I UUID GPU_INSTANCE COMPUTE_INSTANCE PROFILE TOTAL_BYTES USED_BYTES
 *   rate I CHANNEL VALUE              a constant rate of a channel from now on, where there is no timeline file
 *   set WHO NAME[:ARGUMENT] STEP...   the answers of the coming calls; the last one stays
 *   clear WHO NAME[:ARGUMENT]
 *   release                           calls that hang go on with their next step
 *   timeline PATH | epoch MONO_S | wall_shift S | report PATH | reset
 *
 * WHO is a card's index, `*`, or CARD.SLICE. NAME is the entry point without `nvml` and `Device` (GetPowerUsage,
 * GetClockInfo:1, GetFieldValue:186, GetHandle, Init), or `everything`. STEP is [~MILLISECONDS~]WHAT[*REPEAT]; WHAT is
 * a value, `=` for the sensors' own, `!CODE` or `!CODE:COUNT` for an error, `hang` for never.
 */
#include "standin.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHORT_S 0.01 /* a delay of less is what the whole call takes, our own work included */

enum { FACTS = 96, RULES = 1024, STEPS = 64, COUNTS = 2048, ANY = -2, PCIE_TX_BYTES = 197 };

struct fact { char key[40], value[128]; };
struct step { double delay_s; int code, count, hang, model, left; char *text; };
struct rule { int used, card, slice, steps, at; long argument; char name[64]; struct step step[STEPS]; };
struct count { char what[96]; long n; };
struct fault { int card; char kind[32]; double from_s, to_s; };
struct xid { int card; unsigned code; double at_s; };
struct ecc { int card, uncorrected; uint64_t count; double at_s; };

struct card cards[MAX_CARDS];
int card_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static struct fact facts[MAX_CARDS + 1][FACTS]; /* the last row is the node's */
static struct rule rules[RULES];
static struct count counts[COUNTS];
static struct fault faults[MAX_ROWS];
static struct xid xids[MAX_ROWS];
static struct ecc eccs[MAX_ROWS];
static int fault_count, xid_count, ecc_count, in_flight, references, releases;
static int pair_level[MAX_CARDS][MAX_CARDS], pair_status[MAX_CARDS][MAX_CARDS];
static unsigned generation;
static pid_t owner;
static int device_files[MAX_CARDS + 2];
static int device_file_count;

/* What was called, and what must not be */

static void add(const char *what, long n) {
    for (int i = 0; i < COUNTS; i++) {
        if (!counts[i].what[0]) snprintf(counts[i].what, sizeof counts[i].what, "%s", what);
        if (strcmp(counts[i].what, what) == 0) {
            counts[i].n += n;
            return;
        }
    }
}

void violation(const char *what) {
    char line[96];
    snprintf(line, sizeof line, "violation %s", what);
    add(line, 1);
}

long standin_count(const char *what) {
    long n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < COUNTS && counts[i].what[0]; i++)
        if (strcmp(counts[i].what, what) == 0) n = counts[i].n;
    pthread_mutex_unlock(&lock);
    return n;
}

/* What the stand-in itself computes is no cost of the program that calls it: cpu_inside_us of the report. */
static int64_t cpu_inside_ns;

int64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void inside_since(int64_t *cpu_ns) {
    pthread_mutex_lock(&lock);
    cpu_inside_ns += thread_cpu_ns() - *cpu_ns;
    pthread_mutex_unlock(&lock);
}

static void report_to(FILE *out) {
    fprintf(out, "cpu_inside_us %lld\n", (long long)(cpu_inside_ns / 1000));
    fprintf(out, "epoch %.9f\nopen %d\nin_flight %d\ncards %d\n", epoch_s(), references, in_flight, card_count);
    for (int i = 0; i < COUNTS && counts[i].what[0]; i++) fprintf(out, "%s %ld\n", counts[i].what, counts[i].n);
}

void standin_report(char *buffer, size_t size) {
    FILE *out = fmemopen(buffer, size, "w");
    pthread_mutex_lock(&lock);
    report_to(out);
    pthread_mutex_unlock(&lock);
    fclose(out);
}

/* Facts */

const char *fact_text(int card, const char *key, const char *otherwise) {
    const struct fact *row = facts[card < 0 ? MAX_CARDS : card];
    for (int i = 0; i < FACTS && row[i].key[0]; i++)
        if (strcmp(row[i].key, key) == 0) return row[i].value;
    return otherwise;
}

double fact(int card, const char *key, double otherwise) {
    const char *text = fact_text(card, key, NULL);
    return text ? atof(text) : otherwise;
}

static void set_fact(int card, const char *key, const char *value) {
    struct fact *row = facts[card < 0 ? MAX_CARDS : card];
    for (int i = 0; i < FACTS; i++)
        if (!row[i].key[0] || strcmp(row[i].key, key) == 0) {
            snprintf(row[i].value, sizeof row[i].value, "%s", value);
            snprintf(row[i].key, sizeof row[i].key, "%s", key);
            return;
        }
}

int fault_active(int card, const char *kind) {
    double x = now_s();
    for (int i = 0; i < fault_count; i++)
        if ((faults[i].card == card || faults[i].card == -1) && strcmp(faults[i].kind, kind) == 0 &&
            faults[i].from_s <= x && x < faults[i].to_s)
            return 1;
    return 0;
}

int next_xid(int card, double after_s, double until_s, unsigned *code, double *at_s) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < xid_count; i++)
        if (xids[i].card == card && xids[i].at_s > after_s && xids[i].at_s <= until_s &&
            (!found || xids[i].at_s < *at_s)) {
            *code = xids[i].code;
            *at_s = xids[i].at_s;
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

uint64_t ecc_errors(int card, int uncorrected) {
    uint64_t total = 0;
    double x = now_s();
    for (int i = 0; i < ecc_count; i++)
        if (eccs[i].card == card && eccs[i].uncorrected == uncorrected && eccs[i].at_s <= x) total += eccs[i].count;
    return total;
}

int p2p_level(int a, int b) { return pair_level[a][b]; }
int p2p_status(int a, int b) { return pair_status[a][b]; }

/* A time stamp in a scripted answer: microseconds, or @SECONDS from now. */
uint64_t stamp_us(const char *text) {
    if (text[0] == '@') return (uint64_t)llround((wall_s() + atof(text + 1)) * 1e6);
    return strtoull(text, NULL, 10);
}

/* The script */

static void read_step(struct step *step, char *word) {
    memset(step, 0, sizeof *step);
    step->count = -1;
    step->left = 1;
    if (*word == '~') {
        char *end;
        step->delay_s = strtod(word + 1, &end) / 1e3;
        word = *end ? end + 1 : end;
    }
    char *star = strrchr(word, '*');
    if (star && star > word) {
        step->left = atoi(star + 1);
        *star = 0;
    }
    if (*word == '!') {
        char *colon = strchr(word, ':');
        step->code = atoi(word + 1);
        if (colon) step->count = atoi(colon + 1);
    } else if (strcmp(word, "hang") == 0)
        step->hang = 1;
    else if (strcmp(word, "=") == 0)
        step->model = 1;
    else
        step->text = strdup(word);
}

static struct rule *rule_for(char *who, char *name, int make) {
    int card = ANY, slice = ANY;
    long argument = ANY;
    char *dot = strchr(who, '.'), *colon = strchr(name, ':');
    if (*who != '*') {
        card = atoi(who);
        slice = dot ? atoi(dot + 1) : -1;
    }
    if (colon) {
        argument = atol(colon + 1);
        *colon = 0;
    }
    struct rule *free_one = NULL;
    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &rules[i];
        if (!rule->used) {
            if (!free_one) free_one = rule;
        } else if (rule->card == card && rule->slice == slice && rule->argument == argument &&
                   strcmp(rule->name, name) == 0)
            return rule;
    }
    if (!make || !free_one) return NULL;
    free_one->used = 1;
    free_one->card = card;
    free_one->slice = slice;
    free_one->argument = argument;
    snprintf(free_one->name, sizeof free_one->name, "%s", name);
    return free_one;
}

static double time_of(const char *word) { return strcmp(word, "now") == 0 ? now_s() : atof(word); }

static void reset(void) {
    memset(cards, 0, sizeof cards);
    memset(facts, 0, sizeof facts);
    memset(rules, 0, sizeof rules);
    memset(counts, 0, sizeof counts);
    memset(pair_level, 0, sizeof pair_level);
    memset(pair_status, 0, sizeof pair_status);
    card_count = fault_count = xid_count = ecc_count = references = 0;
    owner = 0;
    shift_wall(0.0);
    set_epoch(-1.0);
    releases++;
    pthread_cond_broadcast(&released);
}

static void apply_words(char **w, int n, const char *rest) {
    int card = n > 1 ? atoi(w[1]) : 0;
    struct card *c = card >= 0 && card < MAX_CARDS ? &cards[card] : NULL;
    if (strcmp(w[0], "node") == 0 && n >= 3)
        set_fact(-1, w[1], strstr(rest, w[2]));
    else if (strcmp(w[0], "card") == 0 && n >= 4) {
        set_fact(card, w[2], rest);
        c->present = 1;
        if (card >= card_count) card_count = card + 1;
    } else if (strcmp(w[0], "process") == 0 && n >= 8) {
        if (c->process_count == MAX_ROWS) return;
        c->processes[c->process_count++] = (struct process){
            (unsigned)atoi(w[2]), strcmp(w[3], "compute") == 0 ? 0 : strcmp(w[3], "graphics") == 0 ? 1 : 2,
            strtoull(w[4], NULL, 10), time_of(w[5]), atof(w[6]), atof(w[7])};
    } else if (strcmp(w[0], "p2p") == 0 && n >= 5) {
        int other = atoi(w[2]);
        pair_level[card][other] = pair_level[other][card] = atoi(w[3]);
        pair_status[card][other] = pair_status[other][card] = atoi(w[4]);
    } else if (strcmp(w[0], "nvlink_peer") == 0 && n >= 4)
        snprintf(c->peer[atoi(w[2])], sizeof c->peer[0], "%s", w[3]);
    else if (strcmp(w[0], "fault") == 0 && n >= 5) {
        struct fault *fault = &faults[fault_count++];
        fault->card = card;
        snprintf(fault->kind, sizeof fault->kind, "%s", w[2]);
        fault->from_s = time_of(w[3]);
        fault->to_s = time_of(w[4]);
    } else if (strcmp(w[0], "xid") == 0 && n >= 4)
        xids[xid_count++] = (struct xid){card, (unsigned)atoi(w[2]), time_of(w[3])};
    else if (strcmp(w[0], "ecc") == 0 && n >= 5)
        eccs[ecc_count++] = (struct ecc){card, w[2][0] == 'u', strtoull(w[3], NULL, 10), time_of(w[4])};
    else if (strcmp(w[0], "mig") == 0 && n >= 8) {
        struct slice *slice = &c->slices[c->slice_count++];
        snprintf(slice->uuid, sizeof slice->uuid, "%s", w[2]);
        slice->gpu_instance = (unsigned)atoi(w[3]);
        slice->compute_instance = (unsigned)atoi(w[4]);
        snprintf(slice->profile, sizeof slice->profile, "%s", w[5]);
        slice->total = strtoull(w[6], NULL, 10);
        slice->used = strtoull(w[7], NULL, 10);
    } else if (strcmp(w[0], "rate") == 0 && n >= 4)
        set_rate(card, w[2], atof(w[3]));
    else if (strcmp(w[0], "set") == 0 && n >= 4) {
        struct rule *rule = rule_for(w[1], w[2], 1);
        if (!rule) return;
        rule->at = rule->steps = 0;
        for (int i = 3; i < n && rule->steps < STEPS; i++) read_step(&rule->step[rule->steps++], w[i]);
        pthread_cond_broadcast(&released);
    } else if (strcmp(w[0], "clear") == 0 && n >= 3) {
        struct rule *rule = rule_for(w[1], w[2], 0);
        if (rule) rule->used = 0;
        pthread_cond_broadcast(&released);
    } else if (strcmp(w[0], "release") == 0) {
        releases++;
        pthread_cond_broadcast(&released);
    } else if (strcmp(w[0], "epoch") == 0 && n >= 2)
        set_epoch(atof(w[1]));
    else if (strcmp(w[0], "wall_shift") == 0 && n >= 2)
        shift_wall(atof(w[1]));
    else if (strcmp(w[0], "report") == 0 && n >= 2) {
        char half[4096];
        snprintf(half, sizeof half, "%s.part", w[1]);
        FILE *out = fopen(half, "w");
        if (out) {
            report_to(out);
            fclose(out);
            rename(half, w[1]);
        }
    } else if (strcmp(w[0], "reset") == 0)
        reset();
}

/* Apply one line. `timeline` takes the lock for each of the file's own lines. */
void standin_apply(const char *line) {
    static __thread char copy[1 << 16];
    char *words[80], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " \n", &save); word && n < 80; word = strtok_r(NULL, " \n", &save))
        words[n++] = word;
    if (!n || words[0][0] == '#') return;
    if (strcmp(words[0], "timeline") == 0 && n >= 2) {
        char path[4096];
        snprintf(path, sizeof path, "%s", words[1]);
        load_timeline(path);
        return;
    }
    /* What follows `card I KEY ` runs to the end of the line. */
    const char *rest = line;
    for (int i = 0; i < (strcmp(words[0], "card") == 0 ? 3 : 0); i++) {
        rest += strcspn(rest, " ");
        rest += strspn(rest, " ");
    }
    static __thread char tail[256];
    snprintf(tail, sizeof tail, "%s", rest);
    tail[strcspn(tail, "\n")] = 0;
    pthread_mutex_lock(&lock);
    apply_words(words, n, tail);
    pthread_mutex_unlock(&lock);
}

/* Read what the control file has gained since the last look. */
static void follow(void) {
    static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
    static off_t offset;
    static double looked_s;
    const char *path = getenv("STANDIN_SCRIPT");
    if (!path || monotonic_s() - looked_s < 0.01 || pthread_mutex_trylock(&reading) != 0) return;
    looked_s = monotonic_s();
    FILE *in = fopen(path, "re");
    if (in) {
        static char line[1 << 16];
        fseeko(in, offset, SEEK_SET);
        while (fgets(line, sizeof line, in) && strchr(line, '\n')) {
            offset = ftello(in);
            standin_apply(line);
        }
        fclose(in);
    }
    pthread_mutex_unlock(&reading);
}

/* Calls */

static struct rule *scripted(int card, int slice, const char *name, long argument) {
    struct rule *best = NULL;
    int best_rank = -1;
    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &rules[i];
        if (!rule->used || strcmp(rule->name, name) != 0) continue;
        if (rule->card != ANY && (rule->card != card || rule->slice != slice)) continue;
        if (rule->argument != ANY && rule->argument != argument) continue;
        int rank = 2 * (rule->card != ANY) + (rule->argument != ANY);
        if (rank > best_rank) best = rule, best_rank = rank;
    }
    return best;
}

/* Take the next step of a rule. Return 0 when the sensors are to answer, else fill code and answer. */
static int take(struct rule *rule, struct call *call, double *delay_s) {
    struct step step = rule->step[rule->at];
    *delay_s += step.delay_s;
    if (step.hang) {
        int seen = releases;
        while (rule->used && rule->step[rule->at].hang && seen == releases) pthread_cond_wait(&released, &lock);
        if (rule->used && rule->step[rule->at].hang && rule->at + 1 < rule->steps) rule->at++;
        return rule->used && !rule->step[rule->at].hang ? take(rule, call, delay_s) : 0;
    }
    if (--rule->step[rule->at].left <= 0 && rule->at + 1 < rule->steps) rule->at++;
    if (step.model) return 0;
    if (step.text)
        snprintf(call->answer, sizeof call->answer, "%s", step.text);
    else
        call->code = step.code;
    call->attempt_count = step.count;
    return 1;
}

static int code_of_fault(int card) {
    if (fault_active(card, "driver_not_loaded")) return DRIVER_NOT_LOADED;
    if (card < 0) return -1;
    if (fault_active(card, "lost")) return GPU_IS_LOST;
    if (fault_active(card, "reset_required")) return RESET_REQUIRED;
    return fault_active(card, "unknown") ? UNKNOWN : -1;
}

static void answer_call(struct call *call, int card, int slice, const char *name, long argument) {
    char what[96];
    double delay_s = 0.0;
    snprintf(what, sizeof what, "call %s %d", name, card);
    add(what, 1);
    if (argument == PCIE_TX_BYTES) { /* the field of a batch that costs time */
        snprintf(what, sizeof what, "field %s:%ld %d", name, argument, card);
        add(what, 1);
    }
    struct rule *rule = scripted(card, slice, "everything", argument);
    if (!rule || !take(rule, call, &delay_s)) {
        rule = scripted(card, slice, name, argument);
        if (rule) take(rule, call, &delay_s);
    }
    pthread_mutex_unlock(&lock);
    if (call->began_s > 0.0 && delay_s < SHORT_S)
        call->ends_s = call->began_s + delay_s;
    else if (delay_s > 0.0)
        take_s(delay_s);
    while (fault_active(card, "hung")) sleep_s(0.01);
    pthread_mutex_lock(&lock);
    if (call->code < 0 && !call->answer[0]) call->code = code_of_fault(card);
}

void call_begin(struct call *call, struct handle *device, const char *name, long argument) {
    memset(call, 0, offsetof(struct call, answer) + 1);
    call->device = device;
    call->code = call->attempt_count = -1;
    call->cpu_ns = thread_cpu_ns();
    call->began_s = call->ends_s = monotonic_s();
    follow();
    pthread_mutex_lock(&lock);
    in_flight++;
    char what[96];
    if (!references || owner != getpid())
        call->code = UNINITIALIZED;
    else if (!device) {
        snprintf(what, sizeof what, "null handle in %s", name);
        violation(what);
        call->code = INVALID_ARGUMENT;
    } else if (device->generation != generation) {
        snprintf(what, sizeof what, "stale handle in %s", name);
        violation(what);
        call->code = INVALID_ARGUMENT;
    } else {
        if (device->told_lost) {
            snprintf(what, sizeof what, "lost handle in %s", name);
            violation(what);
        }
        answer_call(call, device->card, device->slice, name, argument);
        device->told_lost |= call->code == GPU_IS_LOST;
    }
    pthread_mutex_unlock(&lock);
}

void call_end(struct call *call) {
    take_s(call->ends_s - monotonic_s());
    pthread_mutex_lock(&lock);
    in_flight--;
    cpu_inside_ns += thread_cpu_ns() - call->cpu_ns;
    pthread_mutex_unlock(&lock);
}

/* A scripted value or code for something that is part of a call: a field, a handle lookup. Return -1 to go on. */
int answer_for(int card, int slice, const char *name, long argument, char *answer, size_t size) {
    struct call call = {.code = -1, .attempt_count = -1};
    pthread_mutex_lock(&lock);
    answer_call(&call, card, slice, name, argument);
    pthread_mutex_unlock(&lock);
    snprintf(answer, size, "%s", call.answer);
    return call.code;
}

int initialised(void) {
    follow();
    pthread_mutex_lock(&lock);
    int up = references > 0 && owner == getpid();
    pthread_mutex_unlock(&lock);
    return up;
}

struct handle *new_handle(int card, int slice) {
    struct handle *handle = calloc(1, sizeof *handle);
    handle->card = card;
    handle->slice = slice;
    handle->generation = generation;
    return handle;
}

static void open_device_files(void) {
    const char *folder = getenv("STANDIN_DEVICES");
    char path[4096];
    if (!folder) return;
    for (int i = -1; i < card_count; i++) {
        if (i < 0)
            snprintf(path, sizeof path, "%s/nvidiactl", folder);
        else
            snprintf(path, sizeof path, "%s/nvidia%d", folder, (int)fact(i, "minor", i));
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0) device_files[device_file_count++] = fd;
    }
}

/* Count an initialisation (+1) or a shutdown (-1); each process counts its own. Return a code. */
int library_up(int delta) {
    follow();
    pthread_mutex_lock(&lock);
    struct call call = {.code = -1, .attempt_count = -1};
    if (owner && owner != getpid()) references = in_flight = device_file_count = 0;
    if (delta > 0) {
        now_s();
        answer_call(&call, -1, -1, "Init", -1);
        if (call.code <= 0) {
            call.code = SUCCESS;
            owner = getpid();
            add("init", 1);
            if (references++ == 0) {
                generation++;
                open_device_files();
            }
        }
    } else if (references <= 0)
        call.code = UNINITIALIZED;
    else {
        call.code = SUCCESS;
        add("shutdown", 1);
        if (in_flight) violation("shutdown during a call");
        if (--references == 0)
            while (device_file_count) close(device_files[--device_file_count]);
    }
    pthread_mutex_unlock(&lock);
    return call.code;
}
