/* SPDX-License-Identifier: MIT */
/*
 * requests_rig.c - the world around the handlers: its state, its clock, its registration threads.
 */
#include "tests/fuzz/requests_rig.h"
#include "common/memfd.h"
#include "daemon/base/hole_guard.h"
#include "daemon/base/log.h"
#include "daemon/state/limits.h"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#define MEMORIES 64u
#define WORK_MOST 100000u /* steps until all is done: more is for ever */

struct state st;
uint64_t world_now_ns;
static struct config config;
static unsigned fds_before;

static uint64_t scripted_clock(void) {
    return world_now_ns;
}

/* ---- memory of programs ---------------------------------------------------------------------- */

static struct memory memories[MEMORIES];
static unsigned nmemories;

struct memory *memory_nth(unsigned nth) {
    return nmemories ? &memories[nmemories - 1 - nth % nmemories] : NULL;
}

void memory_keep(int fd, bool ours, bool loose) {
    if (nmemories == MEMORIES)
        return;
    off_t bytes = lseek(fd, 0, SEEK_END);
    int copy = dup(fd);
    must(bytes >= 0 && copy >= 0);
    memories[nmemories++] =
        (struct memory){.fd = copy, .ours = ours, .loose = loose, .bytes = (size_t)bytes};
}

void memories_forget(void) {
    while (nmemories)
        close(memories[--nmemories].fd);
}

/* The kernel's part of this is not what is looked for, and not every kernel has it. */
void hole_guard_install(void) {}
const char *hole_guard_missing(void) {
    return NULL;
}
int hole_guard_add(void *base, size_t bytes, struct error *err) {
    (void)base, (void)bytes, (void)err;
    return 0;
}

/* Linked in the place of close: nothing is closed twice. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    int rc = __real_close(fd);
    must(rc == 0 || errno != EBADF);
    return rc;
}

/* ---- registration threads -------------------------------------------------------------------- */

static struct list jobs;
static bool job_has_run; /* the first of them */

void offload_post(struct offload *o, struct offload_job *job) {
    (void)o;
    list_init(&job->node);
    list_append(&jobs, &job->node);
}

void offload_progress(struct offload *o, struct offload_progress *out) {
    (void)o;
    *out = (struct offload_progress){0};
}

bool work_step(void) {
    if (list_empty(&jobs))
        return false;
    struct offload_job *job = list_entry(list_first(&jobs), struct offload_job, node);
    if (!job_has_run) {
        job->run(job);
        job_has_run = true;
        return true;
    }
    job_has_run = false;
    list_remove(&job->node);
    job->done(job);
    return true;
}

/* ---- the data plane -------------------------------------------------------------------------- */

static bool plane_can_refuse(const struct fake_call *call) {
    switch (call->kind) {
    case FAKE_RING_ADD:
    case FAKE_POOL_ADD:
    case FAKE_LEASE_ADD:
    case FAKE_GRANT_ADD:
    case FAKE_CHANNEL_ADD:
    case FAKE_CHANNEL_WAY:
        return true;
    default:
        return false;
    }
}

bool plane_answer(unsigned nth, bool refuse) {
    struct fake_call *call = fake_next(nth);
    if (call)
        fake_answer(call, refuse && plane_can_refuse(call) ? RDMAD_E_NOMEM : RDMAD_OK);
    return call != NULL;
}

void world_settle(void) {
    unsigned steps = 0;
    bool more = true;
    while (more) {
        more = programs_turn() || work_step() || plane_answer(0, false) || guests_answer() ||
               peers_answer(0, 0);
        must(++steps < WORK_MOST);
    }
}

void world_pass(uint64_t ns) {
    world_now_ns = clock_after(world_now_ns, ns);
    timers_run(&st.timers, world_now_ns);
}

/* ---- up and down ----------------------------------------------------------------------------- */

/* So low that an input comes to them. */
static const uint64_t most[QUOTA_COUNT] = {
    [QUOTA_SESSIONS] = 6,  [QUOTA_BYTES] = 4 << 20, [QUOTA_REGISTERED] = 1 << 20,
    [QUOTA_POOLS] = 8,     [QUOTA_RINGS] = 4,       [QUOTA_LEASES] = 16,
    [QUOTA_ATTACHES] = 16, [QUOTA_SERVICES] = 8,    [QUOTA_MAPPINGS] = 24,
    [QUOTA_CHANNELS] = 16, [QUOTA_QUESTIONS] = 8,
};

static const char rules[] =
    "{\"policy\": {\"users\": ["
    "{\"match\": {\"uid\": 1000}, \"huge_pages\": false, \"names\": [\"a\"],"
    " \"services\": [\"a\"], \"peers\": [\"far\"], \"grant_rights\": \"rwd\","
    " \"attach_rights\": \"rd\", \"limits\": {\"pools_per_uid\": 3}},"
    "{\"match\": {\"uid\": 1001}, \"scopes\": [\"uid\"], \"peers\": [],"
    " \"limits\": {\"calls_per_second_per_uid\": 50}},"
    "{\"match\": {\"socket\": \"blue\"}, \"connect\": false}]}}";

static void configure(unsigned how) {
    struct error err;
    config_defaults(&config);
    if (how & REQUESTS_POLICY)
        must(config_parse(&config, "FILE", rules, strlen(rules), &err) == 0);
    config.max_calls_uid = how & REQUESTS_RATE ? 2 : 0;
    config.lease_tombstones = 4;
    if (how & REQUESTS_NO_RETURN)
        config.peer_return_ms = 0;
    strcpy(config.socket_group, "clients");
    st.config = &config;
    st.client_group = how & REQUESTS_GROUP ? 77 : (gid_t)-1;
    if (how & REQUESTS_POLICY)
        must((st.policy = policy_new(&config)));
}

static unsigned open_fds(void) {
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    must(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

void world_up(unsigned how) {
    static const char *const tenants[] = {"blue", NULL};
    static int lifeline = -1;
    struct quota_limits limits;
    for (unsigned r = 0; r < QUOTA_COUNT; r++) {
        limits.total[r] = most[r];
        limits.uid[r] = most[r] - most[r] / 4;
        limits.session[r] = most[r] / 2;
    }
    if (lifeline < 0) {
        log_set_level(LOG_EMERG);
        must((lifeline = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    }
    fake_reset();
    told_forget();
    check_forget();
    world_now_ns = 1000 * NSEC_PER_SEC;
    st = (struct state){.clock = scripted_clock,
                        .lifeline = lifeline,
                        .listen_port = PORT,
                        .tenants = tenants,
                        .started_ns = world_now_ns};
    strcpy(st.node_name, "rig");
    strcpy(st.listen_host, "127.0.0.1");
    st.life.number = how & REQUESTS_NO_LIFE ? 0 : 1;
    configure(how);
    fake_grants_at_once = !(how & REQUESTS_GRANTS);
    fake_atomics_are_cpus = !(how & REQUESTS_BY_LINK);
    list_init(&jobs);
    job_has_run = false;
    list_init(&st.sessions);
    usage_init(&st.usage);
    timers_init(&st.timers, NULL, NULL);
    slots_init(&st.channels, CHANNELS_TOTAL_MAX);
    quota_init(&st.quota, &limits);
    must(names_new(&st.timers, &st.names) == 0 && leases_new(&st, &st.leases) == 0);
    peers_up();
    guests_up();
    fds_before = open_fds();
}

static void program_is_left(struct program *p) {
    struct error why;
    error_set(&why, RDMAD_E_SHUTDOWN, "rdmad stops");
    session_close(p->session, &why);
    must(!p->connected);
}

static void everybody_goes(void) {
    for (unsigned i = 0; i < PROGRAMS; i++) {
        if (programs[i].connected && st.stopping)
            program_is_left(&programs[i]);
        else if (programs[i].connected)
            program_go(&programs[i], false);
    }
    world_settle();
    must(list_empty(&st.sessions));
    must(leases_count(st.leases) == 0);
    must(st.channels.used == 0);
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        must(st.quota.total.used[r] == 0);
}

/* What is remembered for watches has gone with them, and with what is remembered of users. */
static void forget_users(void) {
    world_pass(3600 * NSEC_PER_SEC);
    for (unsigned i = 0; i < 64 && !list_empty(&st.quota.idle); i++)
        quota_forget_idle(&st.quota, CLOCK_NEVER);
    must(list_empty(&st.quota.uids));
    must(timers_next(&st.timers) == CLOCK_NEVER);
}

void world_next_life(void) {
    everybody_goes();
    st.stopping = st.draining = false;
    if (!st.life.number)
        return;
    leases_free(st.leases);
    st.life.number++;
    st.started_ns = world_now_ns;
    must(leases_new(&st, &st.leases) == 0);
}

void world_down(void) {
    everybody_goes();
    forget_users();
    peers_down();
    guests_down();
    must(fake_memories == 0);
    memories_forget();
    must(open_fds() == fds_before);
    leases_free(st.leases);
    names_free(st.names);
    slots_fini(&st.channels);
    timers_fini(&st.timers);
    quota_fini(&st.quota);
    usage_fini(&st.usage);
    policy_free(st.policy);
    config_free(&config);
}
