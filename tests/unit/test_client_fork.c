/* SPDX-License-Identifier: MIT */
/* A session belongs to the process that opened it: a child of fork cannot use it, and cannot harm
 * it. (That it ends with that process: tests/integration/test_kill_client.c.) */
#include "libclient/channel/service.h" /* first: its parameters are named as our globals */
#include "libclient/memory/guard.h"
#include "libclient/memory/guard_fault.h"
#include "libclient/memory/pool.h"
#include "libclient/ring/slots.h"
#include "tests/support/procs.h"
#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fork, .init = rig_set_up, .fini = rig_tear_down, .timeout = 20);

/* Runs it in a child; it returns what the child exits with, 0 when all was as it should be. */
static void in_child(int (*fn)(void)) {
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(10); /* a lock that nobody is left to give back */
        _exit(fn());
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "the child gave up at step %d", WEXITSTATUS(status));
}

/* As a child of vfork has all descriptors until it calls exec. */
Test(fork, a_ring_that_is_destroyed_is_not_told_of_while_a_child_has_its_descriptors) {
    rdmad_ring *another;
    int fd = rdmad_session_fd(s);
    unsigned before = epoll_watches(fd);

    cr_assert_eq(rdmad_ring_create(s, 4, &another), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(epoll_watches(fd), before + 1);
    pid_t child = holder_fork();
    rdmad_ring_destroy(another);
    cr_expect_eq(epoll_watches(fd), before);
    holder_end(child);
}

static int just_close(void) {
    rdmad_close(s);
    return 0;
}

Test(fork, a_child_that_closes_the_session_does_not_end_its_parents) {
    rdmad_pool *other;

    in_child(just_close);
    cr_assert_eq(rdmad_pool_create(s, 4096, 0, &other), 0, "%s", rdmad_last_error(s));
}

static int use_everything(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    rdmad_pool *other;

    if (rdmad_pool_create(s, 4096, 0, &other) != RDMAD_E_DAEMON_LOST)
        return 1;
    if (!strstr(rdmad_last_error(s), "a child opens its own"))
        return 2;
    if (rdmad_write(lease, 0, memory, 8) != RDMAD_E_DAEMON_LOST)
        return 3;
    if (rdmad_next_event(s, -1, &e) || e.type != RDMAD_EVENT_SESSION_LOST)
        return 4;
    if (rdmad_next_event(s, -1, &e) != RDMAD_E_DAEMON_LOST)
        return 5;
    rdmad_lease_free(lease);
    rdmad_ring_destroy(ring);
    rdmad_close(s);
    return 0;
}

static void *wait_for_an_event(void *unused) {
    struct rdmad_event e = RDMAD_EVENT_INIT;

    (void)unused;
    rdmad_next_event(s, 2000, &e);
    return NULL;
}

Test(fork, what_a_child_asks_of_the_session_fails_with_a_sentence) {
    pthread_t t; /* who holds or waits for what in the parent does not matter */

    pthread_create(&t, NULL, wait_for_an_event, NULL);
    usleep(20000);
    in_child(use_everything);
    pthread_join(t, NULL);
}

static int reap_and_submit(void) {
    const struct rdmad_cqe *cqe;
    struct rdmad_sqe *sqe;

    if (rdmad_ring_wait(ring, -1, &cqe) || cqe->status != RDMAD_E_DAEMON_LOST ||
        cqe->user_data != 1)
        return 1;
    rdmad_ring_seen(ring, cqe);
    sqe = rdmad_ring_reserve(ring);
    if (!sqe)
        return 2;
    rdmad_prep_nop(ring, sqe, 2);
    if (rdmad_ring_submit(ring) != RDMAD_E_DAEMON_LOST)
        return 3;
    if (rdmad_ring_wait(ring, -1, &cqe) || cqe->user_data != 2)
        return 4;
    rdmad_ring_seen(ring, cqe);
    if (rdmad_ring_wait(ring, -1, &cqe) != RDMAD_E_DAEMON_LOST)
        return 5;
    if (rdmad_ring_fd(ring) != RDMAD_E_DAEMON_LOST)
        return 6;
    return strstr(rdmad_last_error(s), "a child opens its own") ? 0 : 7;
}

Test(fork, a_child_neither_takes_its_parents_completions_nor_submits_in_its_place) {
    struct rdmad_sqe sqe;

    rig_submit_write(1);
    sqe = rig_take();
    rig_complete(&sqe, 0);
    in_child(reap_and_submit);
    cr_assert_eq(rig_reap().user_data, 1);
    rig_submit_write(3);
    sqe = rig_take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE, "the child's nop came first");
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 3);
}

static char *parents;

static int allocate_and_free(void) {
    if (rdmad_alloc(pool, 64) || !strstr(rdmad_last_error(s), "a child opens its own"))
        return 1;
    rdmad_free(pool, parents);
    rdmad_free(pool, parents); /* nothing is freed: also not twice */
    if (rdmad_buf_lock_write(pool, parents, 64, -1) != RDMAD_E_DAEMON_LOST)
        return 2;
    if (rdmad_pool_destroy(pool) != RDMAD_E_DAEMON_LOST || memcmp(parents, "parent's", 8) != 0)
        return 3;
    return 0;
}

Test(fork, a_child_is_given_none_of_its_parents_memory_and_frees_none) {
    parents = rdmad_alloc(pool, 64);
    memcpy(parents, "parent's", sizeof("parent's"));
    in_child(allocate_and_free);
    cr_assert_eq(memcmp(parents, "parent's", 8), 0);
    cr_assert_neq(rdmad_alloc(pool, 64), parents);
    rdmad_free(pool, parents);
}

static int unlock_and_end(void) {
    rdmad_buf_unlock_write(pool, memory + 4096, 64);
    rdmad_ring_destroy(ring);
    return 0;
}

Test(fork, what_a_child_gives_up_waits_for_no_lock_of_its_parents_threads) {
    struct rdmad_holders *h = &pool->holders;

    cr_assert_eq(rdmad_buf_lock_write(pool, memory + 4096, 64, 0), 0);
    rig_submit_write(1);
    h->attention++; /* some thread waits for a lock, and */
    pthread_mutex_lock(&h->lock);
    in_child(unlock_and_end);
    pthread_mutex_unlock(&h->lock);
    h->attention--;
    rdmad_buf_unlock_write(pool, memory + 4096, 64);
}

/* ---- locks that another thread of the parent's holds ---------------------------------------- */

static pthread_mutex_t *watched_lock; /* atomic */
static bool watched_is_asked_for;     /* atomic */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock) {
    if (lock == __atomic_load_n(&watched_lock, __ATOMIC_ACQUIRE))
        __atomic_store_n(&watched_is_asked_for, true, __ATOMIC_RELEASE);
    return __real_pthread_mutex_lock(lock);
}

static void await(const bool *flag) {
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static struct fake_daemon other;

static rdmad_session *open_at_other(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *own = NULL;
    o.runtime_dir = other.dir;
    return rdmad_open(&o, &own) ? NULL : own;
}

/* A session, a pool and a piece of its own. */
static int use_its_own(void) {
    rdmad_session *own = open_at_other();
    rdmad_pool *mine;
    void *piece;
    if (!own || rdmad_pool_create(own, 1 << 16, 0, &mine))
        return 1;
    if (!(piece = rdmad_alloc(mine, 64)))
        return 2;
    rdmad_free(mine, piece);
    rdmad_close(own);
    return 0;
}

static void end_the_child(void *unused) {
    (void)unused;
    _exit(0);
}

/* The key is younger than the library's, so the library has done its part before. */
static int end_the_thread(void) {
    pthread_key_t key;
    if (pthread_key_create(&key, end_the_child) || pthread_setspecific(key, &key))
        return 1;
    pthread_exit(NULL);
}

static bool has_stock, may_end; /* atomic */

static void *keep_a_stock(void *unused) {
    rdmad_free(pool, rdmad_alloc(pool, 64));
    __atomic_store_n(&has_stock, true, __ATOMIC_RELEASE);
    await(&may_end);
    return unused;
}

Test(fork, a_child_uses_pools_of_its_own_while_a_thread_of_its_parents_gives_its_stock_back) {
    pthread_mutex_t *depot = &pool->arena->depot.lock;
    pthread_t t;
    fake_start(&other);
    rdmad_free(pool, rdmad_alloc(pool, 64)); /* this thread has a stock, too */
    pthread_create(&t, NULL, keep_a_stock, NULL);
    await(&has_stock);
    pthread_mutex_lock(depot);
    __atomic_store_n(&watched_lock, depot, __ATOMIC_RELEASE);
    __atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
    await(&watched_is_asked_for); /* it has the list of all stocks, and waits for the depot */
    in_child(use_its_own);
    in_child(end_the_thread);
    pthread_mutex_unlock(depot);
    pthread_join(t, NULL);
    fake_stop(&other);
}

static int use_its_own_guarded(void) {
    setenv("RDMAD_GUARD", "1", 1);
    return use_its_own();
}

Test(fork, a_child_guards_pools_of_its_own_while_a_thread_of_its_parents_has_the_guards_lock) {
    fake_start(&other);
    rdmad_guard_lock();
    in_child(use_its_own_guarded);
    rdmad_guard_unlock();
    fake_stop(&other);
}

static rdmad_ring *guarded;

static int destroy_the_guarded(void) {
    rdmad_ring_destroy(guarded);
    return 0;
}

Test(fork, a_child_ends_an_op_that_the_guard_of_its_parents_had_not_heard_of_yet) {
    struct rdmad_hold *hold;
    struct rdmad_sqe *sqe;
    rdmad_session *own;
    rdmad_pool *of_it;
    rdmad_lease *its;
    fake_start(&other);
    setenv("RDMAD_GUARD", "1", 1);
    own = open_at_other();
    cr_assert_not_null(own);
    cr_assert_eq(rdmad_pool_create(own, 1 << 16, 0, &of_it), 0);
    cr_assert_eq(rdmad_ring_create(own, 4, &guarded), 0);
    cr_assert_eq(rdmad_lease_attach(own, "name", 0, &its), 0);
    sqe = rdmad_ring_reserve(guarded);
    cr_assert_eq(rdmad_prep_write(guarded, sqe, its, 0, rdmad_alloc(of_it, 64), 64, 1), 0);
    hold = &guarded->holds.hold[rdmad_slot_of(guarded, sqe)];
    cr_assert_eq(hold->pool, of_it);
    rdmad_guard_release(of_it, hold); /* as while a thread is about to tell it */
    in_child(destroy_the_guarded);
    rdmad_guard_hold(of_it, hold);
    rdmad_close(own);
    fake_stop(&other);
}

static int lend_and_hold(void) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    rdmad_service *other_service;
    rdmad_lease *own;
    struct rdmad_sqe *sqe;
    if (rdmad_lease_grant(s, memory + 8192, 64, NULL, &own) != RDMAD_E_DAEMON_LOST)
        return 1;
    terms.budget = memory + 8192;
    terms.budget_bytes = 64;
    if (rdmad_listen(s, "service", &terms, &other_service) != RDMAD_E_DAEMON_LOST)
        return 2;
    sqe = rdmad_ring_reserve(ring);
    if (!sqe || rdmad_prep_read(ring, sqe, lease, 0, memory + 4096, 64, 1) != RDMAD_E_DAEMON_LOST)
        return 3;
    return strstr(rdmad_last_error(s), "a child opens its own") ? 0 : 4;
}

Test(fork, what_a_child_lends_or_prepares_waits_for_no_lock_of_its_parents_threads) {
    struct rdmad_holders *h = &pool->holders;
    rdmad_lease *own;
    cr_assert_eq(rdmad_lease_grant(s, memory, 64, NULL, &own), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_buf_lock_write(pool, memory + 4096, 64, 0), 0);
    pthread_mutex_lock(&h->lock);
    cr_assert_eq(rdmad_hold_map_take(h->lent_map, 8192, 64, true), 0); /* as who asks if it is */
    in_child(lend_and_hold);
    rdmad_hold_map_drop(h->lent_map, 8192, 64, true);
    pthread_mutex_unlock(&h->lock);
    rdmad_buf_unlock_write(pool, memory + 4096, 64);
}

static rdmad_service *service;

static int close_the_service(void) {
    rdmad_service_close(service);
    return 0;
}

Test(fork, a_child_that_closes_a_service_gives_no_memory_of_its_parents_back) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    struct rdmad_holders *h = &pool->holders;
    terms.budget = memory;
    terms.budget_bytes = 64;
    cr_assert_eq(rdmad_listen(s, "service", &terms, &service), 0, "%s", rdmad_last_error(s));
    service->over = true; /* as one that a daemon did not take back */
    pthread_mutex_lock(&h->lock);
    in_child(close_the_service);
    pthread_mutex_unlock(&h->lock);
}

static uint16_t stalled_type;
static bool is_stalled, may_go_on; /* atomic */

static bool stall(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    (void)f;
    (void)body;
    if (h->type == stalled_type) {
        stalled_type = 0;
        __atomic_store_n(&is_stalled, true, __ATOMIC_RELEASE);
        await(&may_go_on);
    }
    return false;
}

/* A thread is in the call, which has the lock, while the daemon does not answer. */
static void in_child_meanwhile(void *(*call)(void *), uint16_t asks, int (*fn)(void)) {
    pthread_t t;
    stalled_type = asks;
    fake.hook = stall;
    rig_play(NULL);
    pthread_create(&t, NULL, call, NULL);
    await(&is_stalled);
    in_child(fn);
    __atomic_store_n(&may_go_on, true, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
}

static void *write_plainly(void *unused) {
    cr_expect_eq(rdmad_write(lease, 0, memory, 64), 0, "%s", rdmad_last_error(s));
    return unused;
}

static int transfer_segments(void) {
    struct rdmad_segment segment = {.buffer = memory, .length = 64};
    if (rdmad_writev(lease, &segment, 1) != RDMAD_E_DAEMON_LOST)
        return 1;
    return rdmad_readv(lease, &segment, 1) != RDMAD_E_DAEMON_LOST;
}

Test(fork, a_child_transfers_no_segments_while_a_thread_of_its_parents_has_the_ring) {
    in_child_meanwhile(write_plainly, RDMAD_MSG_RING_CREATE, transfer_segments);
}

static rdmad_channel *channel;

static void *write_a_copy(void *unused) {
    cr_expect_eq(rdmad_write_copy(lease, 0, "a", 1), 0, "%s", rdmad_last_error(s));
    return unused;
}

static int copy(void) {
    rdmad_lease *came;
    char to;
    if (rdmad_write_copy(lease, 0, "b", 1) != RDMAD_E_DAEMON_LOST)
        return 1;
    if (rdmad_read_copy(lease, 0, &to, 1) != RDMAD_E_DAEMON_LOST)
        return 2;
    if (rdmad_send_lease(channel, "rdmad:///name") != RDMAD_E_DAEMON_LOST)
        return 3;
    return rdmad_recv_lease(channel, 0, &came) != RDMAD_E_DAEMON_LOST ? 4 : 0;
}

Test(fork, a_child_copies_nothing_while_a_thread_of_its_parents_has_the_blocks) {
    cr_assert_eq(
        rdmad_connect(s, "rdmad://127.0.0.1:1/service", RDMAD_CHANNEL_RELIABLE, 0, &channel), 0);
    in_child_meanwhile(write_a_copy, RDMAD_MSG_POOL_CREATE, copy);
}

static int ask_for_the_descriptor(void) {
    return rdmad_session_fd(s) != RDMAD_E_DAEMON_LOST;
}

Test(fork, a_child_gets_no_descriptor_of_its_parents_session) {
    in_child(ask_for_the_descriptor);
}

static rdmad_session *resumable;

static int wake_the_parents_thread(void) {
    int fd[16];
    eventfd_t value;
    for (int i = 0; i < 16; i++) /* one of them has the number that the thread's had */
        fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    resumable->wake_resumer(resumable);
    for (int i = 0; i < 16; i++)
        if (fd[i] < 0 || eventfd_read(fd[i], &value) == 0)
            return 1 + i;
    return 0;
}

Test(fork, a_child_writes_to_no_descriptor_that_has_the_number_of_its_parents) {
    other.outlived = true;
    fake_start(&other);
    resumable = open_at_other();
    cr_assert_not_null(resumable);
    in_child(wake_the_parents_thread);
    rdmad_close(resumable);
    fake_stop(&other);
}

/* Sockets of ours that are connected to the other daemon. */
static int count_at_other(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_un at = {.sun_family = 0};
        socklen_t size = sizeof(at) - 1;
        if (getpeername(fd, (struct sockaddr *)&at, &size) == 0 && at.sun_family == AF_UNIX)
            n += strncmp(at.sun_path, other.dir, strlen(other.dir)) == 0;
    }
    return n;
}

/* The thread that resumes the session has connected, and waits for one that still sleeps on the old
 * socket. */
Test(fork, a_child_has_no_socket_of_a_session_that_is_just_resumed) {
    other.outlived = true;
    fake_start(&other);
    resumable = open_at_other();
    cr_assert_not_null(resumable);
    in_child(count_at_other);
    fake_go(&other);
    while (rdmad_is_open(resumable))
        usleep(1000);
    pthread_mutex_lock(&resumable->lock);
    resumable->receiving = true;
    pthread_mutex_unlock(&resumable->lock);
    fake_come_back(&other);
    while (__atomic_load_n(&other.lives, __ATOMIC_ACQUIRE) < 2)
        usleep(1000);
    cr_expect_geq(count_at_other(), 1, "the test looks at the wrong place");
    in_child(count_at_other);
    pthread_mutex_lock(&resumable->lock);
    resumable->receiving = false;
    pthread_cond_broadcast(&resumable->changed);
    pthread_mutex_unlock(&resumable->lock);
    while (!rdmad_is_open(resumable))
        usleep(1000);
    in_child(count_at_other);
    rdmad_close(resumable);
    fake_stop(&other);
}

/* ---- its own -------------------------------------------------------------------------------- */

static int open_its_own(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *own;

    o.runtime_dir = "/nonexistent";
    if (rdmad_open(&o, &own) != RDMAD_E_NO_DAEMON)
        return 1;
    rdmad_close(s);
    return 0;
}

Test(fork, a_child_may_open_a_session_of_its_own) {
    in_child(open_its_own);
    rig_submit_write(1);
    struct rdmad_sqe sqe = rig_take();
    rig_complete(&sqe, 0);
    cr_assert_eq(rig_reap().user_data, 1);
}
