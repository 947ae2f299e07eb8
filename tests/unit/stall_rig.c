/* SPDX-License-Identifier: MIT */
#include "libclient/control/control.h" /* first: its parameters are named as our globals */

#include "tests/unit/stall_rig.h"
#include <criterion/criterion.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS 64u
#define EVENTS 16u

static struct {
    void (*call)(void);
    bool (*hook)(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body);
    uint16_t type;
    bool asked;     /* atomic; it has come */
    unsigned lives; /* of the fake, before */
    sem_t answer, go_on;
    pthread_t caller, receiver;

    struct {
        uint16_t type;
        char body[RDMAD_MSG_MAX];
    } request[REQUESTS];
    unsigned requests; /* atomic */
    uint32_t event[EVENTS];
    unsigned events;
} stall;

static __thread bool is_caller;

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

/* Until the answer the caller lets go of no lock but in pthread_cond_wait. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock) {
    int rc = __real_pthread_mutex_unlock(lock);
    if (is_caller && __atomic_load_n(&stall.asked, __ATOMIC_ACQUIRE)) {
        is_caller = false;
        sem_wait(&stall.go_on);
    }
    return rc;
}

/* ---- the daemons --------------------------------------------------------------------------- */

static bool stall_note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    unsigned n = stall.requests;
    if (__atomic_load_n(&f->lives, __ATOMIC_ACQUIRE) > stall.lives && n < REQUESTS) {
        stall.request[n].type = h->type;
        memcpy(stall.request[n].body, body, h->length - sizeof(*h));
        __atomic_store_n(&stall.requests, n + 1, __ATOMIC_RELEASE);
    }
    if (h->type == stall.type && !stall.asked) {
        __atomic_store_n(&stall.asked, true, __ATOMIC_RELEASE);
        sem_wait(&stall.answer);
    }
    return stall.hook && stall.hook(f, h, body);
}

unsigned stall_asked(uint16_t type, void *body, size_t size) {
    unsigned n = __atomic_load_n(&stall.requests, __ATOMIC_ACQUIRE);
    while (n && stall.request[n - 1].type != type)
        n--;
    if (n && body)
        memcpy(body, stall.request[n - 1].body, size);
    return n;
}

/* ---- the threads --------------------------------------------------------------------------- */

static void *stall_receive(void *unused) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    while (e.type != RDMAD_EVENT_SESSION_RESUMED && e.type != RDMAD_EVENT_SESSION_LOST &&
           rdmad_next_event(s, -1, &e) == 0 && stall.events < EVENTS)
        stall.event[stall.events++] = e.type;
    return unused;
}

static void *stall_make_call(void *unused) {
    is_caller = true;
    stall.call();
    return unused;
}

unsigned stall_events(uint32_t type) {
    unsigned count = 0;
    for (unsigned i = 0; i < stall.events; i++)
        count += stall.event[i] == type;
    return count;
}

/* ---- the case ------------------------------------------------------------------------------ */

static bool somebody_receives(void) {
    return s->receiving;
}

static bool was_asked(void) {
    return __atomic_load_n(&stall.asked, __ATOMIC_ACQUIRE);
}

static bool all_is_answered(void) {
    return !s->calls;
}

static void stall_await(bool (*ready)(void), const char *what) {
    bool done = false;
    for (unsigned i = 0; i < 10000 && !done; i++) {
        pthread_mutex_lock(&s->lock);
        done = ready();
        pthread_mutex_unlock(&s->lock);
        usleep(done ? 0 : 1000);
    }
    cr_assert(done, "%s", what);
}

static void stall_begin(uint16_t type, void (*call)(void)) {
    sem_init(&stall.answer, 0, 0);
    sem_init(&stall.go_on, 0, 0);
    stall.type = type;
    stall.call = call;
    stall.lives = __atomic_load_n(&fake.lives, __ATOMIC_ACQUIRE);
    stall.hook = fake.hook;
    fake.hook = stall_note;
    cr_assert_eq(pthread_create(&stall.receiver, NULL, stall_receive, NULL), 0);
    stall_await(somebody_receives, "nobody receives");
    cr_assert_eq(pthread_create(&stall.caller, NULL, stall_make_call, NULL), 0);
}

void stall_call(uint16_t type, void (*call)(void)) {
    uint32_t resumes = rdmad_resumes(s);
    stall_begin(type, call);
    stall_await(was_asked, "nothing was asked");
    sem_post(&stall.answer);
    stall_await(all_is_answered, "the request was not answered");
    fake_go(&fake);
    fake_come_back(&fake);
    for (unsigned i = 0; i < 20000 && (rdmad_resumes(s) == resumes || !rdmad_is_open(s)); i++)
        usleep(1000);
    cr_assert(rdmad_is_open(s) && rdmad_resumes(s) > resumes, "no daemon has the session");
    sem_post(&stall.go_on);
    pthread_join(stall.caller, NULL);
    pthread_join(stall.receiver, NULL);
    rdmad_control_prod(s); /* all that was posted before is noted now */
}
