/* SPDX-License-Identifier: MIT */
/*
 * test_faults.c - every fault, enumerated: two daemons that run on while each allocation, each
 * descriptor, mapping, thread and transfer of bytes that a scenario reaches fails once, and each
 * call of a fabric. Over verbs the calls to the device fail, too.
 *
 * The scenario is counted, then run with the first call of a kind failing, the second, and so on.
 * Whatever failed, every call of a client is answered within ten seconds, with success or an error
 * in words; after it the scenario works again in the same daemons, and they hold no more than
 * before, of devices neither. tests/soak takes every call, of json's a part; ./check a few of each
 * kind.
 *
 *     RDMAD_FAULTS=memory build/tests/fault/test_faults           one kind, all of it
 *     RDMAD_FAULTS=memory:1:73                                    one fault: daemon, number
 */
#include "tests/integration/fault_scenario.h"
#include "tests/integration/fault_steer.h"
#include "tests/support/harness.h"
#include "tests/support/identities.h"
#include "tests/support/procs.h"
#include "tests/support/rdma.h"
#include "tests/support/temp.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OWNER,
    LESSEE,
    DAEMONS,
    WARM_RUNS = 4,
    FAILURES_MAX = 40,
    MANY_OF_JSON = 600,
    MISSED_MAX = 100, /* in a row: on a busy machine a call that waits is made thousands of times */
    DEVICE_FAILURES = 3
};

static const char *const sides[DAEMONS] = {"the owner's daemon", "the lessee's daemon"};

struct fault {
    enum fault_kind kind;
    unsigned daemon;
    long number;
};

static struct bed {
    char dir[40];
    bool proven; /* daemons have identities: TLS between them, links encrypted */
    struct tdaemon *daemon[DAEMONS];
    struct fault_page *page[DAEMONS];
    json_t *objects[DAEMONS];
    struct fault_report *report;
    struct rdma_resources devices[DAEMONS]; /* over verbs: in use there after the warm-up */
    unsigned failures, hit, refused, lost, device_failures;
} bed;

/* ---- daemons -------------------------------------------------------------------------------- */

static void page_path(unsigned daemon, char path[64]) {
    snprintf(path, 64, "%s/%u", bed.dir, daemon);
}

static bool holds_no_more(json_t *now, json_t *before) {
    const char *key;
    json_t *value;
    json_object_foreach(before, key, value) {
        if (json_integer_value(json_object_get(now, key)) > json_integer_value(value))
            return false;
    }
    return true;
}

/* At most: a link that was lost is made again when somebody needs it. */
static void expect_settled(unsigned daemon) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (;;) {
        json_t *now = tdaemon_objects(bed.daemon[daemon]);
        if (holds_no_more(now, bed.objects[daemon])) {
            json_decref(now);
            return;
        }
        if (now_ms() > deadline) {
            char *text = json_dumps(now, JSON_COMPACT);
            snprintf(bed.report->why, sizeof(bed.report->why), "%s still holds %s", sides[daemon],
                     text);
            _exit(1);
        }
        json_decref(now);
        sleep_ms(5);
    }
}

/* In a process of its own: 0, or what is wrong is in the report or has been printed. */
static int scenario(bool strict, bool settled) {
    fflush(NULL);
    pid_t pid = fork();
    int status = 0;
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        fault_scenario(bed.daemon[OWNER], bed.daemon[LESSEE], strict, bed.report);
        for (unsigned d = 0; settled && d < DAEMONS; d++)
            expect_settled(d);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
    return status;
}

static bool over_verbs(void) {
    const char *fabric = getenv("RDMAD_TEST_FABRIC");
    return fabric && strcmp(fabric, "verbs") == 0;
}

static const char *device_of(unsigned daemon) {
    return daemon == OWNER ? "rxe0" : "rxe1";
}

/* Of devices a daemon holds no more than before, either: queue pairs, registrations. */
static void expect_devices_settled(void) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (unsigned d = 0; over_verbs() && d < DAEMONS; d++) {
        const struct rdma_resources *was = &bed.devices[d];
        for (;;) {
            struct rdma_resources is = rdma_resources(device_of(d));
            if (is.pd <= was->pd && is.cq <= was->cq && is.qp <= was->qp && is.mr <= was->mr &&
                is.ctx <= was->ctx && is.cm_id <= was->cm_id)
                break;
            CHECK(now_ms() < deadline,
                  "%s: qp %u cq %u pd %u mr %u cm_id %u ctx %u in use, were %u %u %u %u %u %u",
                  device_of(d), is.qp, is.cq, is.pd, is.mr, is.cm_id, is.ctx, was->qp, was->cq,
                  was->pd, was->mr, was->cm_id, was->ctx);
            sleep_ms(50);
        }
    }
}

static void warm_up(void) {
    for (unsigned i = 0; i < (over_verbs() ? 2 : WARM_RUNS); i++)
        CHECK(scenario(true, false) == 0, "without a fault: %s (%s)", bed.report->why,
              bed.report->step);
    sleep_ms(100);
    for (unsigned d = 0; d < DAEMONS; d++) {
        json_decref(bed.objects[d]);
        bed.objects[d] = tdaemon_objects(bed.daemon[d]);
        if (over_verbs())
            bed.devices[d] = rdma_resources(device_of(d));
    }
}

static struct tdaemon *start(unsigned daemon) {
    static const char *const host[DAEMONS] = {"127.0.0.1", "127.0.0.2"};
    char identity[64];
    snprintf(identity, sizeof(identity), "%s/node-%u", bed.dir, daemon);
    tdaemon_notice_silence_soon();
    return tdaemon_start(host[daemon],
                         bed.proven ? (const char *[]){"--identity", identity, NULL} : NULL);
}

/* Whether there is one. */
static bool links_are_encrypted(void) {
    char rdmactl[4096], out[8192];
    const char *argv[] = {build_path("rdmactl/rdmactl", rdmactl, sizeof(rdmactl)),
                          "-d",
                          tdaemon_dir(bed.daemon[LESSEE]),
                          "-j",
                          "link",
                          "show",
                          NULL};
    CHECK(run_program(argv, out, sizeof(out)) == 0, "%s", out);
    CHECK(!strstr(out, "\"encryption\":\"none\""), "%s", out);
    return strstr(out, "\"encryption\":\"");
}

/* Links are there as long as they are used, and half a second: on a busy machine too short. */
static void expect_encrypted(void) {
    enum { TRIES = 20 };
    for (unsigned tries = 1; !links_are_encrypted(); tries++) {
        CHECK(tries < TRIES, "there is no link");
        warm_up();
    }
}

static void bed_open(void) {
    char path[64];
    CHECK(temp_dir(bed.dir, sizeof(bed.dir), 20, "fault"), "%s: %s", bed.dir, strerror(errno));
    if (bed.proven)
        make_identities(bed.dir, DAEMONS);
    bed.report =
        mmap(NULL, sizeof(*bed.report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(bed.report != MAP_FAILED, "mmap: %s", strerror(errno));
    tdaemon_use("tests/fault/rdmad_fault");
    for (unsigned d = 0; d < DAEMONS; d++) {
        page_path(d, path);
        bed.page[d] = fault_page_make(path);
        fault_page_use(path);
        bed.daemon[d] = start(d);
    }
    warm_up();
    if (bed.proven)
        expect_encrypted();
}

static void bed_close(void) {
    char path[64];
    for (unsigned d = 0; d < DAEMONS; d++) {
        tdaemon_stop(bed.daemon[d]);
        json_decref(bed.objects[d]);
        page_path(d, path);
        unlink(path);
    }
    run_program((const char *[]){"/bin/rm", "-r", bed.dir, NULL}, path, sizeof(path));
}

/* Daemons that nobody has used yet. */
static void bed_fresh(void) {
    char path[64];
    for (unsigned d = 0; d < DAEMONS; d++)
        tdaemon_kill(bed.daemon[d]);
    for (unsigned d = 0; d < DAEMONS; d++) {
        page_path(d, path);
        fault_page_use(path);
        tdaemon_restart(bed.daemon[d]);
    }
}

/* What a fault has broken is not to be found once more by the next. */
static void bed_anew(void) {
    bed_fresh();
    warm_up();
    bed.device_failures = 0;
}

/* A device that fails is opened again, each time later than the last: that pause is no fault. */
static void await_device(unsigned daemon) {
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    for (;;) {
        json_t *status = tdaemon_status(bed.daemon[daemon]);
        json_t *trouble = json_object_get(json_object_get(status, "fabric"), "trouble");
        bool back = !trouble || json_is_null(trouble);
        json_decref(status);
        if (back)
            return;
        CHECK(now_ms() < deadline, "%s: the device is not used again", sides[daemon]);
        sleep_ms(20);
    }
}

static bool was_call(const struct fault_page *page, const char *const *calls) {
    while (*calls && strcmp(page->call, *calls) != 0)
        calls++;
    return *calls;
}

/* What failed as a scenario ended is given up in the next: a device, and links with it; or a link
 * for which there is no receive, of which the other end hears by its next op. */
static int device_settled(unsigned daemon) {
    static const char *const of_device[] = {"ibv_poll_cq", "ibv_req_notify_cq", NULL};
    static const char *const of_link[] = {"ibv_post_recv", NULL};
    const struct fault_page *page = bed.page[daemon];
    bool device = was_call(page, of_device);
    if (!over_verbs() || !page->failed || (!device && !was_call(page, of_link)))
        return 0;
    bed.device_failures += device;
    await_device(daemon);
    int status = scenario(false, false);
    await_device(daemon);
    return status;
}

/* ---- one fault ------------------------------------------------------------------------------ */

static void failed(const struct fault *f, const char *when, int status) {
    bed.failures++;
    printf("  %s:%u:%ld, %s: ", fault_kind_names[f->kind], f->daemon, f->number, when);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("%s hangs\n", bed.report->step);
    else if (bed.report->why[0])
        printf("%s\n", bed.report->why);
    else
        printf("wait status %#x, in %s\n", (unsigned)status, bed.report->step);
    for (unsigned d = 0; d < DAEMONS; d++) {
        if (WIFSIGNALED(status)) {
            printf("    %s:\n", sides[d]);
            process_show_threads(tdaemon_pid(bed.daemon[d]), stdout);
        }
        siginfo_t ended = {.si_pid = 0};
        waitid(P_PID, (id_t)tdaemon_pid(bed.daemon[d]), &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid)
            printf("    %s died, status %d\n", sides[d], ended.si_status);
    }
    fault_page_show(bed.page[f->daemon]);
    fflush(stdout);
}

/* Whether everything is as promised. */
static bool try_fault(const struct fault *f) {
    struct fault_page *page = bed.page[f->daemon];
    uint64_t start = now_ms();
    fault_page_arm(page, f->kind, f->number);
    int status = scenario(false, false);
    fault_page_arm(page, f->kind, 0);
    bed.hit += atomic_load(&page->failed);
    bed.refused += bed.report->refused != 0;
    bed.lost += bed.report->lost != 0;
    if (status) {
        failed(f, "with the fault", status);
        return false;
    }
    char first[sizeof(bed.report->first)];
    memcpy(first, bed.report->first, sizeof(first));
    uint64_t between = now_ms();
    status = device_settled(f->daemon);
    if (!status)
        status = scenario(true, true);
    if (getenv("RDMAD_FAULTS_SHOW") && page->failed) {
        printf("  %s:%u:%ld, %s, %lu and %lu ms: %s\n", fault_kind_names[f->kind], f->daemon,
               f->number, page->call, (unsigned long)(between - start),
               (unsigned long)(now_ms() - between), first);
        if (!over_verbs()) /* in the guest it takes seconds */
            fault_page_show(page);
        fflush(stdout);
    }
    if (status) {
        failed(f, "after it", status);
        printf("    the fault had: %s\n", first);
        return false;
    }
    return true;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* How many calls of that kind the scenario reaches there: at most, or each time. */
static long reached(enum fault_kind kind, unsigned daemon, bool fresh, bool each_time) {
    unsigned long least = LONG_MAX, most = 0;
    for (unsigned i = 0; i < (over_verbs() ? 1 : 3); i++) {
        if (fresh)
            bed_fresh();
        unsigned long before = atomic_load(&bed.page[daemon]->counts[kind]);
        CHECK(scenario(true, false) == 0, "without a fault: %s", bed.report->why);
        unsigned long n = atomic_load(&bed.page[daemon]->counts[kind]) - before;
        most = n > most ? n : most;
        least = n < least ? n : least;
    }
    return (long)(each_time ? least : most);
}

static void each_fault(enum fault_kind kind, unsigned daemon, bool fresh, long few) {
    long all = reached(kind, daemon, fresh, few != 0), tried = 0, step = few ? 1 + all / few : 1;
    long from = 1 + (long)(kind * 5 + daemon * 3) % step;
    unsigned before = bed.hit, refused = bed.refused, lost = bed.lost, missed = 0;
    for (long n = from; n <= all && bed.failures < FAILURES_MAX && missed < MISSED_MAX;
         n += step, tried++) {
        unsigned hit = bed.hit;
        if (fresh)
            bed_fresh();
        bool well = try_fault(&(struct fault){kind, daemon, n});
        if (!fresh && (!well || bed.device_failures > DEVICE_FAILURES))
            bed_anew();
        missed = bed.hit > hit ? 0 : missed + 1;
    }
    if (!fresh)
        expect_devices_settled();
    printf(
        "  %-10s at %s: %ld calls, %ld faults, %u hit, %u refused something, %u lost a session\n",
        fault_kind_names[kind], sides[daemon], all, tried, bed.hit - before, bed.refused - refused,
        bed.lost - lost);
    fflush(stdout);
}

/* 0: all. Rows of answers are much alike, and thousands. */
static long how_many(enum fault_kind kind, long few) {
    if (getenv("RDMAD_FAULTS"))
        return 0;
    return test_scale() < 10 ? few : kind == FAULT_JSON ? MANY_OF_JSON : 0;
}

/* Devices are another case's: over tcp the daemon asks them for nothing but their names. */
static bool is_of_devices(enum fault_kind kind) {
    return kind == FAULT_VERBS || (kind == FAULT_FABRIC && over_verbs());
}

static void enumerate(bool devices, bool fresh, long few) {
    const char *wanted = getenv("RDMAD_FAULTS");
    char wanted_kind[16] = "";
    unsigned daemon = DAEMONS;
    long number = 0;
    if (wanted)
        sscanf(wanted, "%15[a-z]:%u:%ld", wanted_kind, &daemon, &number);
    bed_open();
    for (unsigned k = 0; k < FAULT_KINDS; k++)
        for (unsigned d = 0; d < DAEMONS; d++) {
            const enum fault_kind kind = (enum fault_kind)k;
            if ((wanted_kind[0] && strcmp(wanted_kind, fault_kind_names[kind]) != 0) ||
                (daemon < DAEMONS && d != daemon) || devices != is_of_devices(kind))
                continue;
            if (number && fresh)
                bed_fresh();
            if (number)
                try_fault(&(struct fault){kind, d, number});
            else
                each_fault(kind, d, fresh, how_many(kind, few));
        }
    CHECK(bed.failures == 0, "%u faults broke something", bed.failures);
    bed_close();
}

static void any_call_of_a_daemon_may_fail(void) {
    enumerate(false, false, 6);
}

/* Tables grow for the first time, a first link is made, threads are started. */
static void any_call_of_a_fresh_daemon_may_fail(void) {
    enumerate(false, true, 2);
}

/* They shake hands, and encrypt. Fresh ones: a handshake is of the first use. */
static void any_call_of_daemons_with_identities_may_fail(void) {
    bed.proven = true;
    enumerate(false, true, 2);
}

/* And what the engine asks of the fabric that uses one. */
static void any_call_to_a_device_may_fail(void) {
    enumerate(true, false, 2);
}

int main(int argc, char **argv) {
    static const struct test_case of_devices[] = {CASE(any_call_to_a_device_may_fail)};
    static const struct test_case others[] = {CASE(any_call_of_a_daemon_may_fail),
                                              CASE(any_call_of_a_fresh_daemon_may_fail),
                                              CASE(any_call_of_daemons_with_identities_may_fail)};
    if (over_verbs())
        return runner_main(argc, argv, of_devices, 1);
    return runner_main(argc, argv, others, sizeof(others) / sizeof(others[0]));
}
