/* SPDX-License-Identifier: MIT */
/*
 * test_memory_pressure.c - memory that runs out in somebody's cgroup: a client that may have little
 * is refused a large pool, or dies of it, and its neighbour goes on; a daemon that is killed for
 * its own group is resumed from. Root makes the groups.
 */
#include "tests/support/bystander.h"
#include "tests/support/client.h"
#include "tests/support/memory_group.h"
#include "tests/support/pair.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* Skips, with the daemon stopped, where there are no such groups. */
static void need_group(struct tdaemon *d, const char *name, uint64_t bytes) {
    if (memory_group_make(name) && memory_group_limit(name, bytes))
        return;
    memory_group_remove(name);
    tdaemon_stop(d);
    skip("no memory cgroup with a limit can be made here");
}

/* ---- a client's ---------------------------------------------------------------------------- */

enum { MAY_HAVE = 32 * MIB, ASKS_FOR = 256 * MIB, MANY = 1000 };

struct greedy {
    const struct tdaemon *d;
    char group[64];
};

static void ask_for_too_much(void *arg) {
    const struct greedy *g = arg;
    rdmad_pool *pool;
    CHECK(memory_group_enter(g->group, getpid()), "cannot enter the group");
    rdmad_session *s = client_open(g->d);
    int rc = rdmad_pool_create(s, ASKS_FOR, 0, &pool);
    client_refused(s, rc, RDMAD_E_NOMEM, "pool");
    CHECK(!rdmad_pool_create(s, MIB, 0, &pool), "after that, a small one: %s", rdmad_last_error(s));
    rdmad_close(s);
}

static void a_client_whose_group_is_full_is_refused_or_dies_alone(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct greedy g = {.d = d};
    unsigned refused = 0, killed = 0;
    int status;
    json_t *before = tdaemon_objects(d);
    snprintf(g.group, sizeof(g.group), "rdmad-test-greedy-%d", (int)getpid());
    need_group(d, g.group, MAY_HAVE);
    struct bystander *b = bystander_start(d);
    for (unsigned i = 0; i < 4; i++) {
        pid_t pid = client_fork(ask_for_too_much, &g);
        CHECK(waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
        bool oom = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        CHECK(oom || (WIFEXITED(status) && !WEXITSTATUS(status)), "it ended with status %#x",
              (unsigned)status);
        oom ? killed++ : refused++;
    }
    printf("  %u MiB wanted, %u MiB had: %u refused, %u killed\n", ASKS_FOR / MIB, MAY_HAVE / MIB,
           refused, killed);
    CHECK(memory_group_kills(g.group) == killed, "the kernel says that it has killed %lu",
          (unsigned long)memory_group_kills(g.group));
    bystander_stop(b, "clients whose group has no memory");
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
    memory_group_remove(g.group);
}

/* ---- the daemon's -------------------------------------------------------------------------- */

struct filler {
    const struct tdaemon *d;
    int go[2];
};

/* Has the daemon hold more and more, until it is gone. */
static void fill_the_daemon(void *arg) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    struct filler *f = arg;
    rdmad_session *s;
    rdmad_ring *ring;
    unsigned sessions = 0;
    char c;
    options.runtime_dir = tdaemon_dir(f->d);
    options.resume = 0;
    close(f->go[1]);
    (void)!read(f->go[0], &c, 1);
    for (; sessions < MANY && !rdmad_open(&options, &s); sessions++)
        while (!rdmad_ring_create(s, 1024, &ring))
            ;
    printf("  it had %u sessions and their rings\n", sessions);
    fflush(stdout);
}

static void expect_killed_for_memory(struct tdaemon *d, const char *group) {
    siginfo_t how = {0};
    for (uint64_t since = now_ms(); !how.si_pid; sleep_ms(10)) {
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "the daemon lives, with %lu KiB charged",
              (unsigned long)memory_group_charged(group) >> 10);
        CHECK(waitid(P_PID, (id_t)tdaemon_pid(d), &how, WEXITED | WNOWAIT | WNOHANG) == 0, "%s",
              strerror(errno));
    }
    CHECK(how.si_code == CLD_KILLED && how.si_status == SIGKILL, "it ended by itself, with %d",
          how.si_status);
    CHECK(memory_group_kills(group) > 0, "the kernel has killed nobody in the group");
}

static void a_daemon_killed_for_its_groups_memory_is_resumed_from(void) {
    enum { BYTES = MIB };
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct filler f = {.d = d};
    char group[64];
    rdmad_pool *pool, *mine;
    rdmad_lease *granted;
    need_hole_guard();
    snprintf(group, sizeof(group), "rdmad-test-daemon-%d", (int)getpid());
    need_group(d, group, UINT64_C(1) << 40);
    CHECK(memory_group_enter(group, tdaemon_pid(d)), "cannot put the daemon into the group");
    CHECK(pipe2(f.go, O_CLOEXEC) == 0, "pipe");
    pid_t filler = client_fork(fill_the_daemon, &f);
    rdmad_session *owner = client_with_pool(d, BYTES, &pool);
    rdmad_session *lessee = client_with_pool(d, BYTES, &mine);
    char *memory = rdmad_pool_base(pool), *buffer = rdmad_pool_base(mine);
    fill_bytes(memory, BYTES, 1);
    CHECK(rdmad_lease_grant(owner, memory, BYTES, NULL, &granted) == 0, "%s",
          rdmad_last_error(owner));
    rdmad_lease *there = client_attach(lessee, rdmad_lease_uri(granted));
    CHECK(memory_group_limit(group, memory_group_charged(group) + MIB / 2), "no limit can be set");
    close(f.go[1]);
    expect_killed_for_memory(d, group);
    tdaemon_kill(d); /* reaps it */
    client_expect_ok(filler);
    tdaemon_restart(d);
    (void)client_event(owner, RDMAD_EVENT_SESSION_RESUMED);
    (void)client_event(lessee, RDMAD_EVENT_SESSION_RESUMED);
    CHECK(bytes_are(memory, BYTES, 1, NULL), "the owner's bytes are others");
    CHECK(rdmad_read(there, 0, buffer, BYTES) == 0, "a read: %s", rdmad_last_error(lessee));
    CHECK(bytes_are(buffer, BYTES, 1, NULL), "the read is of other bytes");
    rdmad_close(lessee);
    rdmad_close(owner);
    tdaemon_stop(d);
    memory_group_remove(group);
}

TEST_MAIN(CASE(a_client_whose_group_is_full_is_refused_or_dies_alone),
          CASE(a_daemon_killed_for_its_groups_memory_is_resumed_from))
