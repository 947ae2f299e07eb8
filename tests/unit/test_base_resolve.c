/* SPDX-License-Identifier: MIT */
/*
 * Names of hosts: looked up by what the system has, each on a thread that may hang, few of them for
 * one uid, and nobody waits for one that does.
 */
#include "daemon/base/resolve.h"
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

TestSuite(resolve, .timeout = 60);

static struct mailbox box;
static struct resolver *resolver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned hanging, returned;
static bool released;

/* A system's resolver: "dead..." hangs until it is released, "no..." is unknown, others are there.
 */
static int scripted(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **found) {
    bool dead = !strncmp(host, "dead", 4);
    pthread_mutex_lock(&lock);
    hanging += dead;
    pthread_cond_broadcast(&changed);
    while (dead && !released)
        pthread_cond_wait(&changed, &lock);
    hanging -= dead;
    returned++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!strncmp(host, "no", 2))
        return EAI_NONAME;
    if (!strncmp(host, "broken", 6)) {
        errno = ENFILE;
        return EAI_SYSTEM;
    }
    return getaddrinfo("127.0.0.9", service, hints, found);
}

struct answer {
    unsigned calls;
    struct error result;
    char address[INET_ADDRSTRLEN];
    uint16_t port;
};

static void take(void *arg, const struct error *result, struct addrinfo *found) {
    struct answer *a = arg;
    a->calls++;
    a->result = *result;
    if (!found)
        return;
    const struct sockaddr_in *in = (const struct sockaddr_in *)found->ai_addr;
    inet_ntop(AF_INET, &in->sin_addr, a->address, sizeof(a->address));
    a->port = ntohs(in->sin_port);
    freeaddrinfo(found);
}

static void up(void) {
    cr_assert_eq(mailbox_init(&box), 0);
    resolver = resolver_new(&box, scripted);
    cr_assert_not_null(resolver);
    hanging = returned = 0;
    released = false;
}

/* All threads are over and all mail is read. */
static void down(unsigned asked) {
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    while (returned < asked)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    resolver_free(resolver);
    mailbox_drain(&box);
}

static struct lookup *ask_of(const char *host, struct user_id who, struct answer *a) {
    *a = (struct answer){0};
    struct lookup *l = resolver_ask(resolver, host, 7471, who, take, a);
    cr_assert_not_null(l);
    cr_assert_eq(a->calls, 0, "an answer comes later");
    return l;
}

static struct lookup *ask(const char *host, uid_t uid, struct answer *a) {
    return ask_of(host, (struct user_id){.uid = uid}, a);
}

static void await_answer(const struct answer *a) {
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    while (!a->calls) {
        cr_assert_eq(poll(&p, 1, 20000), 1, "no answer came");
        mailbox_drain(&box);
    }
    cr_assert_eq(a->calls, 1);
}

static void await_hanging(unsigned n) {
    pthread_mutex_lock(&lock);
    while (hanging < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

Test(resolve, a_name_becomes_addresses) {
    struct answer a;
    up();
    ask("good", 1, &a);
    await_answer(&a);
    cr_expect_eq(a.result.code, 0, "%s", a.result.text);
    cr_expect_str_eq(a.address, "127.0.0.9");
    cr_expect_eq(a.port, 7471);
    down(1);
}

Test(resolve, a_name_that_does_not_resolve_says_so_and_why) {
    struct answer a;
    up();
    ask("nowhere", 1, &a);
    await_answer(&a);
    cr_expect_eq(a.result.code, RDMAD_E_UNREACHABLE);
    cr_expect(strstr(a.result.text, "\"nowhere\" does not resolve"), "%s", a.result.text);
    cr_expect(strstr(a.result.text, gai_strerror(EAI_NONAME)), "%s", a.result.text);
    ask("broken", 1, &a);
    await_answer(&a);
    cr_expect(strstr(a.result.text, strerror(ENFILE)), "%s", a.result.text);
    down(2);
}

Test(resolve, dead_names_of_one_uid_keep_only_his_own_waiting) {
    struct answer dead[40], own, others;
    up();
    for (int i = 0; i < 40; i++)
        ask("dead.example", 1, &dead[i]);
    await_hanging(RESOLVE_EACH_MAX);
    ask("good", 2, &others);
    ask("good", 1, &own);
    await_answer(&others);
    cr_expect_eq(own.calls, 0, "his own waits behind them");
    cr_expect_eq(hanging, RESOLVE_EACH_MAX, "%u threads hang for him", hanging);
    down(RESOLVE_EACH_MAX + 1);
}

Test(resolve, nor_those_of_a_tenant_another_with_the_same_uid) {
    struct answer dead[10], others;
    up();
    for (int i = 0; i < 10; i++)
        ask_of("dead.example", (struct user_id){.uid = 1, .tenant = 1}, &dead[i]);
    await_hanging(RESOLVE_EACH_MAX);
    ask_of("good", (struct user_id){.uid = 1, .tenant = 2}, &others);
    await_answer(&others);
    down(RESOLVE_EACH_MAX + 1);
}

Test(resolve, many_uids_with_dead_names_leave_threads_to_who_has_none) {
    struct answer dead[100], others;
    up();
    for (uid_t uid = 0; uid < 10; uid++)
        for (int i = 0; i < 10; i++)
            ask("dead.example", uid, &dead[uid * 10 + (uid_t)i]);
    await_hanging(RESOLVE_THREADS_MAX / 2);
    ask("good", 77, &others);
    await_answer(&others);
    cr_expect_leq(hanging, RESOLVE_THREADS_MAX - 1);
    down(hanging + 1);
}

Test(resolve, who_wants_what_waits_behind_another_gets_it) {
    struct answer dead[RESOLVE_EACH_MAX], a;
    up();
    for (unsigned i = 0; i < RESOLVE_EACH_MAX; i++)
        ask("dead.example", 1, &dead[i]);
    struct lookup *l = ask("good", 1, &a);
    cr_expect(strstr(lookup_waits_for(l), "other names"), "%s", lookup_waits_for(l));
    lookup_wanted_by(l, (struct user_id){.uid = 2});
    await_answer(&a);
    cr_expect_eq(a.result.code, 0);
    await_hanging(RESOLVE_EACH_MAX);
    down(RESOLVE_EACH_MAX + 1);
}

Test(resolve, when_dead_names_end_those_behind_them_go_on) {
    struct answer a[10];
    up();
    for (int i = 0; i < 10; i++)
        ask("dead.example", 1, &a[i]);
    await_hanging(RESOLVE_EACH_MAX);
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 10; i++)
        await_answer(&a[i]);
    down(10);
}

Test(resolve, who_has_given_up_is_not_told_and_is_counted_until_it_is_over) {
    struct answer a, waits[RESOLVE_EACH_MAX], own;
    struct lookup *l[RESOLVE_EACH_MAX];
    up();
    for (unsigned i = 0; i < RESOLVE_EACH_MAX; i++)
        l[i] = ask("dead.example", 1, &waits[i]);
    await_hanging(RESOLVE_EACH_MAX);
    for (unsigned i = 0; i < RESOLVE_EACH_MAX; i++)
        lookup_cancel(l[i]);
    lookup_cancel(ask("good", 1, &own)); /* has not even begun */
    ask("good", 1, &own);
    ask("good", 2, &a);
    await_answer(&a);
    cr_expect_eq(own.calls, 0, "its threads still hang");
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    await_answer(&own);
    for (unsigned i = 0; i < RESOLVE_EACH_MAX; i++)
        cr_expect_eq(waits[i].calls, 0);
    down(RESOLVE_EACH_MAX + 2);
}

/* A daemon that stops does not wait for a resolver that hangs. */
Test(resolve, the_end_waits_for_nobody) {
    struct answer a, b;
    up();
    ask("dead.example", 1, &a);
    await_hanging(1);
    ask("good", 2, &b);
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 20000), 1); /* one answer is on its way, one never comes */
    resolver_free(resolver);
    cr_expect_eq(hanging, 1);
    mailbox_drain(&box);
    cr_expect_eq(a.calls + b.calls, 0, "nobody is told any more");
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&changed);
    while (returned < 2)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
