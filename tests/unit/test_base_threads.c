/* SPDX-License-Identifier: MIT */
/*
 * Mailboxes, the registration thread and the SIGBUS guard under ThreadSanitizer: nothing is lost,
 * nothing is run twice, each sender's order is kept, and no race is reported. A plain main, because
 * TSan does not start under Criterion.
 */
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/base/list.h"
#include "daemon/base/offload.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SENDERS 3
#define LETTERS 20000
#define JOBS 2000

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "%s:%d: not true: " #what "\n", __FILE__, __LINE__); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

struct letter {
    struct mail mail;
    unsigned sender, number;
};

static struct mailbox box;
static unsigned next_number[SENDERS], received, wakeups;
static unsigned turn; /* atomic: letters taken so far */

static void receive(struct mail *mail) {
    struct letter *l = container_of(mail, struct letter, mail);
    CHECK(l->number == next_number[l->sender]);
    next_number[l->sender]++;
    received++;
    free(l);
}

static void *send_letters(void *arg) {
    unsigned sender = *(unsigned *)arg;
    for (unsigned i = 0; i < LETTERS; i++) {
        struct letter *l = malloc(sizeof(*l));
        CHECK(l);
        l->sender = sender;
        l->number = i;
        mailbox_post(&box, &l->mail, receive);
    }
    return NULL;
}

static void sleep_and_drain(void) {
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    CHECK(poll(&p, 1, 10000) == 1); /* a lost wake-up ends here */
    wakeups++;
    mailbox_drain(&box);
}

static bool readable(void) {
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static bool enough, over; /* atomic: what send_when_empty is told, and tells */

/* One at a time, each as soon as the one before was taken. */
static void *send_when_empty(void *arg) {
    for (unsigned i = 0; i < LETTERS && !__atomic_load_n(&enough, __ATOMIC_ACQUIRE); i++) {
        struct letter *l = malloc(sizeof(*l));
        CHECK(l);
        *l = (struct letter){.number = i};
        mailbox_post(&box, &l->mail, receive);
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) <= i)
            sched_yield();
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    return arg;
}

/* A receiver that polls drains as early as it can see mail, which may be before the poster woke it.
 * An empty box with a readable descriptor would keep it from ever sleeping again. Where others have
 * the processors each letter takes milliseconds, and fewer must do. */
static void an_empty_box_wakes_nobody(void) {
    uint64_t until = clock_now_ns() + 5 * NSEC_PER_SEC;
    pthread_t thread;
    CHECK(mailbox_init(&box) == 0);
    received = next_number[0] = 0;
    CHECK(pthread_create(&thread, NULL, send_when_empty, NULL) == 0);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        if (received >= LETTERS / 100 && clock_now_ns() > until)
            __atomic_store_n(&enough, true, __ATOMIC_RELEASE);
        if (!mailbox_pending(&box) || !mailbox_drain(&box))
            continue;
        CHECK(!readable());
        __atomic_store_n(&turn, received, __ATOMIC_RELEASE);
    }
    pthread_join(thread, NULL);
    mailbox_fini(&box);
}

static void letters_arrive_once_and_in_order(void) {
    pthread_t thread[SENDERS];
    unsigned id[SENDERS];
    CHECK(mailbox_init(&box) == 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        id[i] = i;
        CHECK(pthread_create(&thread[i], NULL, send_letters, &id[i]) == 0);
    }
    while (received < SENDERS * LETTERS)
        sleep_and_drain();
    for (unsigned i = 0; i < SENDERS; i++)
        pthread_join(thread[i], NULL);
    CHECK(!mailbox_pending(&box));
    mailbox_fini(&box);
}

static void one_burst_is_one_wakeup(void) {
    unsigned before = received;
    struct pollfd p = {.events = POLLIN};
    CHECK(mailbox_init(&box) == 0);
    next_number[0] = 0;
    for (unsigned i = 0; i < 100; i++) {
        struct letter *l = malloc(sizeof(*l));
        CHECK(l);
        *l = (struct letter){.number = i};
        mailbox_post(&box, &l->mail, receive);
    }
    p.fd = box.fd;
    CHECK(poll(&p, 1, 0) == 1);
    CHECK(mailbox_drain(&box) == 100 && received == before + 100);
    CHECK(poll(&p, 1, 0) == 0);
    mailbox_fini(&box);
}

struct counted_job {
    struct offload_job job;
    unsigned number;
};

static unsigned jobs_run, jobs_done; /* the first is the registration thread's own */

static void job_run(struct offload_job *job) {
    struct counted_job *c = container_of(job, struct counted_job, job);
    CHECK(c->number == jobs_run);
    jobs_run++;
}

static void job_done(struct offload_job *job) {
    struct counted_job *c = container_of(job, struct counted_job, job);
    CHECK(c->number == jobs_done);
    jobs_done++;
    free(c);
}

static void post_jobs(struct offload *o, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        struct counted_job *c = malloc(sizeof(*c));
        CHECK(c);
        *c = (struct counted_job){.job = {.reply_to = &box, .run = job_run, .done = job_done},
                                  .number = i};
        offload_post(o, &c->job);
    }
}

static void jobs_run_in_order_and_stop_finishes_them(void) {
    struct offload *o;
    CHECK(mailbox_init(&box) == 0);
    CHECK(offload_start(&o) == 0);
    post_jobs(o, 0, JOBS);
    while (jobs_done < JOBS)
        sleep_and_drain();
    post_jobs(o, JOBS, 2 * JOBS);
    offload_stop(o);
    CHECK(jobs_run == 2 * JOBS);
    mailbox_drain(&box);
    CHECK(jobs_done == 2 * JOBS);
    mailbox_fini(&box);
    offload_stop(NULL);
}

/* ---- owners ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* whoever holds it holds up jobs */
static unsigned passed[32], begun;                       /* jobs of each owner that have ended */
static unsigned first_when_second;                       /* those of owner 1 when owner 2's did */

static void gated_run(struct offload_job *job) {
    (void)job;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void quick_run(struct offload_job *job) {
    struct counted_job *c = container_of(job, struct counted_job, job);
    CHECK(c->number == passed[job->owner]); /* an owner's jobs keep their order, one at a time */
    if (job->owner == 2)
        first_when_second = __atomic_load_n(&passed[1], __ATOMIC_SEQ_CST);
    __atomic_store_n(&passed[job->owner], c->number + 1, __ATOMIC_SEQ_CST);
}

static void free_done(struct offload_job *job) {
    free(container_of(job, struct counted_job, job));
    jobs_done++;
}

static void post_for(struct offload *o, uint64_t owner, unsigned number,
                     void (*run)(struct offload_job *)) {
    struct counted_job *c = malloc(sizeof(*c));
    CHECK(c);
    *c = (struct counted_job){
        .job = {.owner = owner, .reply_to = &box, .run = run, .done = free_done}, .number = number};
    offload_post(o, &c->job);
}

static void until(const unsigned *count, unsigned value) {
    for (unsigned i = 0; __atomic_load_n(count, __ATOMIC_SEQ_CST) < value; i++) {
        CHECK(i < 20000); /* somebody waits for somebody else */
        usleep(1000);
    }
}

/* All but one thread are held up, each by an owner with more to do; everybody else goes on. */
static void an_owner_holds_up_one_thread_and_nobody_else(void) {
    enum { HOLDERS = OFFLOAD_THREADS - 1, MORE = 50 };
    struct offload *o;
    CHECK(mailbox_init(&box) == 0 && offload_start(&o) == 0);
    jobs_done = begun = 0;
    pthread_mutex_lock(&gate);
    for (unsigned i = 0; i < HOLDERS; i++) {
        post_for(o, i, 0, gated_run);
        for (unsigned k = 0; k < MORE; k++)
            post_for(o, i, k, quick_run);
    }
    until(&begun, HOLDERS);
    for (unsigned k = 0; k < MORE; k++)
        for (uint64_t owner = HOLDERS; owner < 32; owner++)
            post_for(o, owner, k, quick_run);
    for (uint64_t owner = HOLDERS; owner < 32; owner++)
        until(&passed[owner], MORE);
    for (unsigned i = 0; i < HOLDERS; i++)
        CHECK(passed[i] == 0);
    pthread_mutex_unlock(&gate);
    offload_stop(o);
    mailbox_drain(&box);
    CHECK(jobs_done == HOLDERS + 32 * MORE);
    mailbox_fini(&box);
}

/* With one thread for everybody, who comes last with one job waits for one of each, not for all. */
static void owners_take_turns(void) {
    struct offload *o;
    CHECK(mailbox_init(&box) == 0 && offload_start(&o) == 0);
    memset(passed, 0, sizeof(passed));
    begun = 0;
    pthread_mutex_lock(&gate);
    for (unsigned i = 0; i < OFFLOAD_THREADS; i++)
        post_for(o, 100 + i, 0, gated_run); /* all threads have something to do */
    until(&begun, OFFLOAD_THREADS);
    for (unsigned k = 0; k < 2000; k++)
        post_for(o, 1, k, quick_run);
    post_for(o, 2, 0, quick_run);
    pthread_mutex_unlock(&gate);
    until(&passed[2], 1);
    offload_stop(o);
    CHECK(passed[1] == 2000 && first_when_second < 2000);
    mailbox_drain(&box);
    mailbox_fini(&box);
}

/* One thread with one guard survives any number of faults: no signal stays blocked. */
static void faults_can_be_survived_again_and_again(void) {
    char to[64];
    int fd = memfd_create("half", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && guard_install() == 0);
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    for (int i = 0; i < 100; i++)
        CHECK(guard_copy(to, p + 4096, sizeof(to)) == p + 4096);
    CHECK(guard_copy(to, p, sizeof(to)) == NULL);
    munmap(p, 8192);
    close(fd);
}

int main(void) {
    letters_arrive_once_and_in_order();
    an_empty_box_wakes_nobody();
    one_burst_is_one_wakeup();
    jobs_run_in_order_and_stop_finishes_them();
    an_owner_holds_up_one_thread_and_nobody_else();
    owners_take_turns();
    faults_can_be_survived_again_and_again();
    return 0;
}
