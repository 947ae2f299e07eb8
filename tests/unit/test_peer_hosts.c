/* SPDX-License-Identifier: MIT */
/*
 * Peers that we dial by name, with a system's resolver that the test plays: found, unknown, silent.
 */
#include "daemon/base/resolve.h"
#include "tests/unit/lessee_steps.h"
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

static bool answers; /* atomic */

static int scripted(const char *host, const char *service, const struct addrinfo *hints,
                    struct addrinfo **found) {
    if (!strcmp(host, "unknown.example"))
        return EAI_NONAME;
    while (!strncmp(host, "dead", 4) && !__atomic_load_n(&answers, __ATOMIC_SEQ_CST))
        usleep(1000);
    return getaddrinfo("127.0.0.1", service, hints, found);
}

static void named_up(void) {
    up();
    answers = false;
    rig.st.peers->resolver = resolver_new(rig.st.mailbox, scripted);
}

static void named_down(void) {
    __atomic_store_n(&answers, true, __ATOMIC_SEQ_CST);
    down();
}

TestSuite(peer_hosts, .init = named_up, .fini = named_down, .timeout = 60);

static void begin_by(const char *name, struct rig_done *told, struct session *whose) {
    struct error err;
    strcpy(uri.host, name);
    cr_assert_eq(handle_new(whose, &h, &err), 0, "%s", err.text);
    peer_attach(rig.st.peers, h, &uri, 8000 * MS, rig_done, told);
}

static bool dialled(void) {
    struct pollfd p = {.fd = listener->fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

Test(peer_hosts, a_name_is_dialled_where_it_leads) {
    begin_by("good.example", &done, s);
    AWAIT(dialled());
}

Test(peer_hosts, a_name_that_does_not_resolve_is_told_as_that) {
    begin_by("unknown.example", &done, s);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_UNREACHABLE);
    cr_expect(strstr(done.text, "\"unknown.example\" does not resolve"), "%s", done.text);
    cr_expect(strstr(done.text, gai_strerror(EAI_NONAME)), "%s", done.text);
}

Test(peer_hosts, a_resolver_that_is_silent_is_told_as_that) {
    begin_by("dead.example", &done, s);
    rig_advance(5000 * MS); /* attach_timeout_ms */
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_UNREACHABLE);
    cr_expect(strstr(done.text, "\"dead.example\" was not resolved within 5000 ms"), "%s",
              done.text);
    cr_expect(strstr(done.text, "resolver"), "%s", done.text);
    AWAIT(peers_count(rig.st.peers) == 0); /* though its thread still hangs */
}

Test(peer_hosts, dead_names_of_one_uid_do_not_stop_anothers_dial) {
    struct rig_done dead[20] = {0};
    struct session *other = rig_session(4);
    rig.config.max_peers = 100;
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "dead%d.example", i);
        begin_by(name, &dead[i], s);
    }
    begin_by("good.example", &done, s); /* behind them */
    for (int i = 0; i < 10; i++)
        settle();
    cr_expect(!dialled());
    struct rig_done told = {0};
    begin_by("good.example", &told, other); /* the same peer, on another's account */
    AWAIT(dialled());
    rig_advance(8000 * MS);
    AWAIT(told.calls == 1);
    rig_close(other);
    fake_answer_all();
}

/* Nobody listens there; whatever is said of it can be typed again. */
Test(peer_hosts, an_ipv6_address_is_told_in_brackets) {
    char at[32];
    begin_by("::1", &done, s);
    snprintf(at, sizeof(at), "[::1]:%u", uri.port);
    AWAIT(done.calls == 1);
    cr_expect(strstr(done.text, at), "%s is not in: %s", at, done.text);
}
