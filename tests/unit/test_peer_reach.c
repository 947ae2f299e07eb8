/* SPDX-License-Identifier: MIT */
/*
 * Which peers a user may reach: by the name in the peer's certificate, whatever was dialled;
 * by the address where there is no identity. The peer, at 127.0.0.1, is raw.
 */
#include "daemon/peer/control/record.h"
#include "daemon/state/channel.h"
#include "daemon/state/names.h"
#include "daemon/state/policy.h"
#include "daemon/state/service.h"
#include "tests/unit/tls_end.h"

static struct session *user;
static struct raw *listener;
static uint16_t port;
static char *pattern;
static struct rule_list only = {.text = &pattern, .count = 1};
static struct rule rule = {.file = (char *)"rules"};

static void up(void) {
    tls_up();
    user = rig_session(7);
    listener = raw_listen(&port);
}

static void down(void) {
    rig_close(user);
    tls_down();
}

TestSuite(peer_reach, .init = up, .fini = down, .timeout = 120);

static void may_reach(const char *peer) {
    pattern = (char *)(uintptr_t)peer;
    user->policy.uid = user->uid;
    user->policy.value[RULE_PEERS] = (struct policy_value){.list = &only, .rule = &rule, .line = 1};
}

/* ---- what a session asks of a peer --------------------------------------------------------- */

static struct rig_done done;

static void listed(void *arg, const struct error *result, const struct rdmad_names_list_rep *rep) {
    (void)rep;
    rig_done(arg, result);
}

static void ask_attach(void) {
    struct rdmad_uri uri = {.port = port, .lease = 7};
    struct handle *h;
    struct error err;
    strcpy(uri.host, "127.0.0.1");
    cr_assert_eq(handle_new(user, &h, &err), 0, "%s", err.text);
    peer_attach(rig.st.peers, h, &uri, 60000 * MS, rig_done, &done);
}

static void ask_names(void) {
    struct names_query q = {.port = port, .timeout_ns = 60000 * MS};
    strcpy(q.host, "127.0.0.1");
    peer_list(user, &q, listed, &done);
}

static void ask_channel(void) {
    struct rdmad_uri uri = {.port = port, .name = "far"};
    struct channel *ch;
    struct error err;
    strcpy(uri.host, "127.0.0.1");
    cr_assert_eq(channel_new(user, RDMAD_CHANNEL_RELIABLE, rig_done, &done, &ch, &err), 0, "%s",
                 err.text);
    peer_connect(rig.st.peers, ch, &uri, 60000 * MS);
}

static const struct {
    void (*ask)(void);
    uint16_t type;
} kinds[] = {{ask_attach, PEER_MSG_ATTACH_REQ},
             {ask_names, PEER_MSG_NAMES_REQ},
             {ask_channel, PEER_MSG_CHAN_REQ}};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct end *answer(void) {
    struct peer_msg hello = raw_hello();
    struct end *e = end_new(raw_accept(listener), rig_server(node), true);
    cr_assert(end_shakes(e));
    end_expect(e, PEER_MSG_HELLO);
    end_say(e, &hello);
    return e;
}

static void expect_refused(unsigned kind) {
    for (int i = 0; i < 200 && !done.calls; i++)
        pass_time();
    cr_assert_eq(done.calls, 1, "%u: it was not refused", kind);
    cr_expect_eq(done.code, RDMAD_E_PERM, "%u: %d %s", kind, done.code, done.text);
    cr_expect(strstr(done.text, "reach the daemon \"raw\"") && strstr(done.text, "\"peers\""),
              "%u: %s", kind, done.text);
    done = (struct rig_done){0};
}

/* Nothing was asked of it: what comes next is the answer to a ping. */
static void expect_unasked(struct end *e) {
    struct peer_msg ping = {.type = PEER_MSG_PING, .ping.seq = 7};
    end_say(e, &ping);
    end_expect(e, PEER_MSG_PONG);
}

Test(peer_reach, nothing_is_asked_of_a_peer_whose_certificates_name_the_policy_does_not_have) {
    may_reach("127.0.0.*");
    for (unsigned i = 0; i < KINDS; i++)
        kinds[i].ask();
    struct end *e = answer();
    for (int i = 0; i < 200 && done.calls < KINDS; i++)
        pass_time();
    cr_assert_eq(done.calls, KINDS, "%u of those who waited for it were refused", done.calls);
    cr_expect_eq(done.code, RDMAD_E_PERM, "%s", done.text);
    done = (struct rig_done){0};
    for (unsigned i = 0; i < KINDS; i++) { /* now that it is up */
        kinds[i].ask();
        expect_refused(i);
    }
    expect_unasked(e);
    end_free(e);
}

Test(peer_reach, a_peer_of_the_policys_name_is_asked_at_whatever_address) {
    may_reach("ra*");
    kinds[0].ask();
    struct end *e = answer();
    end_expect(e, kinds[0].type);
    for (unsigned i = 1; i < KINDS; i++) {
        kinds[i].ask();
        end_expect(e, kinds[i].type);
    }
    cr_expect_eq(done.calls, 0, "%s", done.text);
    end_free(e);
}

Test(peer_reach, in_clear_the_address_decides_whatever_the_peer_calls_itself) {
    struct peer_msg hello = raw_hello();
    identity_stop(&rig.st);
    may_reach("raw");
    ask_names();
    struct raw *r = raw_accept(listener);
    raw_expect(r, PEER_MSG_HELLO);
    raw_send(r, &hello);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PERM, "%s", done.text);
    may_reach("127.0.0.1");
    ask_names();
    raw_expect(r, PEER_MSG_NAMES_REQ);
    raw_close(r);
}

/* ---- this very daemon, by another address -------------------------------------------------- */

static bool never_lags(struct watch *w) {
    (void)w;
    return false;
}
static void unheard(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    (void)w, (void)entry, (void)what;
}
static const struct watch_ops deaf = {.lags = never_lags, .tell = unheard};

static void expect_walled(void) {
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, RDMAD_E_PERM, "%d %s", done.code, done.text);
    cr_expect(strstr(done.text, "is this very one"), "%s", done.text);
    done = (struct rig_done){0};
}

Test(peer_reach, a_tenant_sees_no_more_by_another_address_of_its_daemon) {
    struct lessee who = {.session = user};
    struct names_query q = {.port = rig.st.listen_port, .timeout_ns = 60000 * MS};
    struct watch watch = {0};
    identity_stop(&rig.st);
    strcpy(rig.st.listen_host, "10.9.8.7");
    strcpy(q.host, "127.0.0.1");

    user->tenant = 5;
    peer_list(user, &q, listed, &done); /* and waits for the connection */
    expect_walled();
    watch_begin(&watch, NULL, &who, "", &deaf);
    cr_expect_null(peer_watch(user, &q, &watch, rig_done, &done));
    expect_walled();
    watch_end(&watch);

    user->tenant = 0;
    peer_list(user, &q, listed, &done);
    AWAIT(done.calls == 1);
    cr_expect_eq(done.code, 0, "who is no tenant: %s", done.text);
}

/* ---- what a peer asks of a session --------------------------------------------------------- */

static struct peer_msg channel_req(const char *service) {
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ, .chan_req = {.ref = 7, .port = port}};
    m.chan_req.kind = m.chan_req.asked = RDMAD_CHANNEL_RELIABLE;
    strcpy(m.chan_req.service, service);
    return m;
}

static struct service *offered(void) {
    const struct service_terms terms = {.backlog = 8, .name = "far"};
    struct service *sv;
    cr_assert_eq(service_listen(user, &terms, &sv, NULL), 0);
    return sv;
}

/* Its way back would be dialled for that user. */
Test(peer_reach, a_channel_comes_from_a_peer_that_the_services_user_may_reach) {
    const struct peer_msg m = channel_req("far");
    struct service *sv = offered();
    struct end *e = greet();
    may_reach("127.0.0.*");
    end_say(e, &m);
    struct peer_chan_refuse refuse = end_expect(e, PEER_MSG_CHAN_REFUSE).chan_refuse;
    cr_expect_eq(refuse.status, RDMAD_E_PERM, "%d %s", refuse.status, refuse.text);
    cr_expect(strstr(refuse.text, "reach the daemon \"raw\""), "%s", refuse.text);
    cr_expect_eq(sv->offered, 0, "its program was asked");
    may_reach("ra*");
    end_say(e, &m);
    AWAIT(sv->waiting == 1);
    end_free(e);
}

Test(peer_reach, in_clear_the_address_that_it_comes_from_decides) {
    const struct peer_msg m = channel_req("far");
    struct service *sv = offered();
    identity_stop(&rig.st);
    struct raw *r = raw_greet();
    may_reach("raw");
    raw_send(r, &m);
    cr_expect_eq(raw_expect(r, PEER_MSG_CHAN_REFUSE).chan_refuse.status, RDMAD_E_PERM);
    may_reach("127.0.0.1");
    raw_send(r, &m);
    AWAIT(sv->waiting == 1);
    raw_close(r);
}

/* As a socket of both says it. */
Test(peer_reach, ipv4_is_matched_as_it_is_written_wherever_it_came_in) {
    const struct peer_msg m = channel_req("far");
    struct service *sv = offered();
    identity_stop(&rig.st);
    struct raw *r = raw_greet();
    list_for_each (pos, &rig.st.peers->all)
        strcpy(list_entry(pos, struct peer, node)->ip, "::ffff:127.0.0.1");
    may_reach("127.0.0.1");
    raw_send(r, &m);
    AWAIT(sv->waiting == 1);
    raw_close(r);
}
