/* SPDX-License-Identifier: MIT */
/*
 * A thread that cannot be started says why, whatever errno was; and whoever starts one, signals are
 * the control thread's, but for those of its own faults.
 */
#include "daemon/base/offload.h"
#include "daemon/base/resolve.h"
#include "daemon/base/thread.h"
#include "tests/support/runner.h"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

static int answer;
static unsigned asked;

/* Found before the C library's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    asked++;
    errno = ENOENT; /* of something else */
    if (answer)
        return answer;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, run, arg);
}

static void *nothing(void *arg) {
    return arg;
}

static void a_thread_that_cannot_be_started_says_why(void) {
    static const int code[] = {EAGAIN, EPERM, ENOMEM};
    for (unsigned i = 0; i < sizeof(code) / sizeof(*code); i++) {
        pthread_t thread;
        struct error err = {0};
        answer = code[i];
        CHECK(thread_start(&thread, "rdmad-test", nothing, NULL, NULL, &err) == RDMAD_E_SYSTEM,
              "%d", err.code);
        CHECK(strstr(err.text, strerror(code[i])) && strstr(err.text, "rdmad-test"), "%s",
              err.text);
    }
    CHECK(asked == 3, "%u", asked);
}

static struct mailbox box;
static sigset_t blocked;
static size_t stack_bytes;
static struct error told;
static unsigned times_told;

static void look_at_myself(void) {
    pthread_attr_t attr;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0, "pthread_getattr_np");
    pthread_attr_getstacksize(&attr, &stack_bytes);
    pthread_attr_destroy(&attr);
}

static void check_signals(const char *whose) {
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT};
    static const int others[] = {SIGTERM, SIGHUP, SIGCHLD, SIGPIPE, SIGALRM};
    for (unsigned i = 0; i < 5; i++) {
        CHECK(!sigismember(&blocked, faults[i]), "%s blocks its fault %d", whose, faults[i]);
        CHECK(sigismember(&blocked, others[i]), "%s takes signal %d", whose, others[i]);
    }
    sigemptyset(&blocked);
}

static void *looks(void *arg) {
    look_at_myself();
    return arg;
}

static void job_looks(struct offload_job *job) {
    (void)job;
    look_at_myself();
}

static void job_done(struct offload_job *job) {
    (void)job;
}

static int lookup_looks(const char *host, const char *service, const struct addrinfo *hints,
                        struct addrinfo **found) {
    (void)host, (void)service, (void)hints, (void)found;
    look_at_myself();
    return EAI_NONAME;
}

static void answered(void *arg, const struct error *result, struct addrinfo *found) {
    (void)arg, (void)found;
    told = *result;
    times_told++;
}

static void ask(struct resolver *r) {
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    times_told = 0;
    CHECK(resolver_ask(r, "host", 1, (struct user_id){.uid = 1}, answered, NULL), "no memory");
    CHECK(poll(&p, 1, 20000) == 1, "no answer");
    mailbox_drain(&box);
    CHECK(times_told == 1, "%u", times_told);
}

static void every_thread_leaves_signals_to_the_control_thread(void) {
    const struct thread_options options = {.stack_bytes = 1u << 20};
    struct offload_job job = {.reply_to = &box, .run = job_looks, .done = job_done};
    struct offload *o;
    pthread_t thread;
    answer = 0;
    CHECK(mailbox_init(&box) == 0, "no mailbox");
    CHECK(thread_start(&thread, "rdmad-test", looks, NULL, &options, NULL) == 0, "%d", errno);
    pthread_join(thread, NULL);
    check_signals("a thread");
    CHECK(stack_bytes == options.stack_bytes, "%zu bytes of stack", stack_bytes);

    CHECK(offload_start(&o) == 0, "%d", errno);
    offload_post(o, &job);
    offload_stop(o);
    mailbox_drain(&box);
    check_signals("a registration thread");

    struct resolver *r = resolver_new(&box, lookup_looks);
    CHECK(r, "no memory");
    ask(r);
    check_signals("a look-up's thread");
    CHECK(stack_bytes == 1u << 20, "%zu bytes of stack", stack_bytes);
    resolver_free(r);
    mailbox_fini(&box);
}

static void who_can_have_no_thread_is_told_why(void) {
    struct offload *o;
    struct resolver *r = resolver_new(&box, lookup_looks);
    CHECK(r && mailbox_init(&box) == 0, "no memory");
    answer = EAGAIN;
    CHECK(offload_start(&o) == RDMAD_E_SYSTEM && errno == EAGAIN, "%s", strerror(errno));
    ask(r);
    CHECK(told.code == RDMAD_E_SYSTEM && strstr(told.text, strerror(EAGAIN)), "%s", told.text);
    answer = 0;
    resolver_free(r);
    mailbox_fini(&box);
}

TEST_MAIN(CASE(a_thread_that_cannot_be_started_says_why),
          CASE(every_thread_leaves_signals_to_the_control_thread),
          CASE(who_can_have_no_thread_is_told_why))
