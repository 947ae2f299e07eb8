/* SPDX-License-Identifier: MIT */
/*
 * What a peer may do here by its proven name. The policy is the test's: it stands in the place of
 * state/policy.c's answer.
 */
#include "daemon/base/audit.h"
#include "daemon/peer/peer.h"
#include "daemon/state/policy.h"
#include "daemon/state/service.h"
#include "tests/unit/tls_end.h"

const struct peer_policy *__wrap_policy_peer(const struct policy *p, const char *name);

static struct peer_policy may;
static char asked[RDMAD_NAME_MAX + 1]; /* for whom, last */
static const char *const some[] = {"b", "d.", "ba", "dd"};

const struct peer_policy *__wrap_policy_peer(const struct policy *p, const char *name) {
    (void)p;
    snprintf(asked, sizeof(asked), "%s", name);
    return &may;
}

/* What the audit log would say of refusals. */
static unsigned refusals;
static char refused_for[64]; /* the last one's cause */

void __wrap_audit_write(enum audit_event event, const char *cause, struct audit_who who,
                        struct audit_object object, const char *text);
void __wrap_audit_write(enum audit_event event, const char *cause, struct audit_who who,
                        struct audit_object object, const char *text) {
    (void)who, (void)object, (void)text;
    if (event != AUDIT_REFUSED)
        return;
    refusals++;
    snprintf(refused_for, sizeof(refused_for), "%s", cause);
}

static void up(void) {
    may = (struct peer_policy){.dials = true,
                               .dialled = true,
                               .attach = true,
                               .names = {.any = true},
                               .registered_bytes = UINT64_MAX,
                               .attaches = UINT64_MAX,
                               .notifications = UINT64_MAX,
                               .channels = UINT64_MAX,
                               .connections = UINT64_MAX};
    tls_up();
}

TestSuite(peer_rights, .init = up, .fini = tls_down, .timeout = 120);

static struct lease *named(const char *name) {
    struct lease_terms t = rig_terms(3600000);
    strcpy(t.name, name);
    return rig_grant_terms(owner, &t);
}

static struct peer_attach_rep attach_of(struct end *e, const struct lease *l, uint64_t ref) {
    struct peer_msg m = raw_attach_req(l, ref, 0);
    end_say(e, &m);
    return end_expect(e, PEER_MSG_ATTACH_REP).attach_rep;
}

/* It is refused. */
static struct peer_attach_rep attach_by_wrong_key(struct end *e, uint64_t ref) {
    struct peer_msg m = raw_attach_req(lease, ref, 0);
    m.attach_req.key[0] ^= 1;
    memset(m.attach_req.name, 0, sizeof(m.attach_req.name));
    m.attach_req.lease = lease->id;
    end_say(e, &m);
    struct peer_attach_rep rep = end_expect(e, PEER_MSG_ATTACH_REP).attach_rep;
    cr_assert_neq(rep.status, 0);
    return rep;
}

/* So many bytes each, of the three that a peer may have. */
static void links_hold(uint64_t bytes) {
    static struct fabric_ops device;
    device = fake_fabric;
    device.target_bytes = bytes;
    fake_fabrics[0] = &device;
    rig.config.verbs_links_per_peer = 3;
}

/* ---- whether it may be a peer -------------------------------------------------------------- */

Test(peer_rights, who_may_not_connect_is_told_so_by_its_name) {
    struct peer_msg hello = raw_hello();
    may.dials = false;
    struct end *e = dial_as(node);
    cr_assert(end_shakes(e));
    end_say(e, &hello);
    struct peer_msg bye = end_expect(e, PEER_MSG_BYE);
    cr_assert_eq(bye.bye.code, RDMAD_E_PERM);
    cr_assert(strstr(bye.bye.text, "does not let raw connect") && strstr(bye.bye.text, "\"dials\""),
              "%s", bye.bye.text);
    cr_assert_str_eq(asked, "raw");
    cr_assert(end_closed(e));
    end_free(e);
}

Test(peer_rights, who_may_not_connect_any_more_goes) {
    struct end *e = greet();
    peers_apply_policy(rig.st.peers);
    quiet();
    cr_assert_eq(peers_in_state("up"), 1);
    may.dials = false;
    peers_apply_policy(rig.st.peers);
    cr_assert(strstr(end_expect(e, PEER_MSG_BYE).bye.text, "\"dials\""));
    cr_assert(end_closed(e));
    end_free(e);
}

Test(peer_rights, a_name_in_clear_is_no_name) {
    identity_stop(&rig.st);
    struct raw *r = raw_greet(); /* it calls itself raw */
    cr_assert_str_eq(asked, "");
    raw_close(r);
}

static void dialled(void *arg, const struct error *result) {
    *(struct error *)arg = *result;
}

Test(peer_rights, whom_nobody_may_dial_is_left_alone) {
    struct error result = {.code = 1};
    struct peer_msg hello = raw_hello();
    uint16_t port;
    may.dialled = false;
    struct raw *listener = raw_listen(&port);
    peer_add(rig.st.peers, "127.0.0.1", port, dialled, &result);
    struct end *e = end_new(raw_accept(listener), rig_server(node), true);
    cr_assert(end_shakes(e));
    end_expect(e, PEER_MSG_HELLO);
    end_say(e, &hello);
    cr_assert(strstr(end_expect(e, PEER_MSG_BYE).bye.text, "\"dialled\""));
    AWAIT(result.code == RDMAD_E_PERM);
    end_free(e);
    raw_close(listener);
}

/* ---- what it may reach --------------------------------------------------------------------- */

Test(peer_rights, who_may_not_attach_gets_nothing) {
    struct end *e = greet();
    struct peer_msg req = {.type = PEER_MSG_REQUEST_REQ};
    struct peer_msg chan = {.type = PEER_MSG_CHAN_REQ};
    may.attach = false;
    struct peer_attach_rep rep = attach_of(e, lease, 5);
    cr_assert_eq(rep.status, RDMAD_E_PERM);
    cr_assert(strstr(rep.text, "\"attach\""), "%s", rep.text);

    req.request_req = (struct peer_request_req){.lessee_ref = 6, .bytes = 4096};
    req.request_req.rights = RDMAD_RIGHT_READ;
    strcpy(req.request_req.service, "anything");
    end_say(e, &req);
    cr_assert_eq(end_expect(e, PEER_MSG_ATTACH_REP).attach_rep.status, RDMAD_E_PERM);

    chan.chan_req = (struct peer_chan_req){.ref = 7, .port = 1};
    chan.chan_req.kind = chan.chan_req.asked = RDMAD_CHANNEL_RELIABLE;
    strcpy(chan.chan_req.service, "anything");
    end_say(e, &chan);
    cr_assert_eq(end_expect(e, PEER_MSG_CHAN_REFUSE).chan_refuse.status, RDMAD_E_PERM);
    end_free(e);
}

Test(peer_rights, what_is_refused_is_audited_once_with_the_policys_cause) {
    struct end *e = greet();
    struct peer_msg chan = {.type = PEER_MSG_CHAN_REQ};
    refusals = 0;
    may.attach = false;
    cr_assert_eq(attach_of(e, lease, 5).status, RDMAD_E_PERM);
    cr_expect_eq(refusals, 1, "%u lines for one attach", refusals);
    cr_expect_str_eq(refused_for, "policy.attach");

    chan.chan_req = (struct peer_chan_req){.ref = 7, .port = 1};
    chan.chan_req.kind = chan.chan_req.asked = RDMAD_CHANNEL_RELIABLE;
    strcpy(chan.chan_req.service, "anything");
    end_say(e, &chan);
    end_expect(e, PEER_MSG_CHAN_REFUSE);
    cr_expect_eq(refusals, 2, "%u lines for an attach and a channel", refusals);

    may.attach = true; /* what the policy has nothing against has the cause of its code */
    struct peer_attach_rep rep = attach_by_wrong_key(e, 8);
    cr_expect_eq(refusals, 3, "%u lines with one for a wrong key (%s)", refusals, rep.text);
    end_free(e);
}

Test(peer_rights, a_name_that_is_not_its_own_is_refused_whether_by_name_or_number) {
    struct lease *mine = named("b.mine"), *other = named("c.other");
    struct end *e = greet();
    may.names = (struct policy_prefixes){.list = some, .count = 4};
    cr_assert_eq(attach_of(e, mine, 5).status, 0);
    struct peer_attach_rep rep = attach_of(e, other, 6);
    cr_assert_eq(rep.status, RDMAD_E_PERM);
    cr_assert(strstr(rep.text, "\"c.other\"") && strstr(rep.text, "\"names\""), "%s", rep.text);
    struct peer_msg m = raw_attach_req(other, 7, 0);
    memset(m.attach_req.name, 0, sizeof(m.attach_req.name));
    m.attach_req.lease = other->id;
    memcpy(m.attach_req.key, other->key, sizeof(m.attach_req.key));
    end_say(e, &m);
    cr_assert_eq(end_expect(e, PEER_MSG_ATTACH_REP).attach_rep.status, RDMAD_E_PERM);
    cr_assert_eq(attach_of(e, lease, 8).status, 0, "one without a name");
    end_free(e);
}

static void say_names(struct end *e, const char *prefix, const char *after) {
    struct peer_msg m = {.type = PEER_MSG_NAMES_REQ, .names_req.ref = 9};
    strcpy(m.names_req.prefix, prefix);
    strcpy(m.names_req.after, after);
    end_say(e, &m);
}

/* All that it is shown, in order, separated by blanks; pages are asked for one after the other. */
static const char *shown(struct end *e, const char *prefix) {
    static char all[4096];
    char last[RDMAD_NAME_MAX + 1] = "";
    struct peer_msg m;
    all[0] = '\0';
    do {
        say_names(e, prefix, last);
        while ((m = end_expect(e, PEER_MSG_NAMES_REP)).names_rep.last == 0) {
            snprintf(last, sizeof(last), "%s", m.names_rep.entry.name);
            strcat(strcat(all, last), " ");
        }
    } while (m.names_rep.last == 2);
    return all;
}

Test(peer_rights, it_sees_the_names_that_it_may_use_page_by_page) {
    static const char *const names[] = {"a1", "b", "b1", "ba1", "c1", "d1", "d.1", "d.2", "dd"};
    struct end *e = greet();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        named(names[i]);
    cr_assert_str_eq(shown(e, ""), "a1 b b1 ba1 c1 d.1 d.2 d1 dd ");
    may.names = (struct policy_prefixes){.list = some, .count = 4};
    cr_assert_str_eq(shown(e, ""), "b b1 ba1 d.1 d.2 dd ", "%s", shown(e, ""));
    cr_assert_str_eq(shown(e, "d"), "d.1 d.2 dd ");
    cr_assert_str_eq(shown(e, "d.1"), "d.1 ");
    cr_assert_str_eq(shown(e, "c"), "");
    for (unsigned i = 0; i < 3 * RDMAD_NAMES_PER_REPLY; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%c.%02u", i % 2 ? 'b' : 'd', i);
        named(name);
    }
    unsigned n = 0;
    for (const char *at = shown(e, ""); (at = strchr(at, ' ')); at++)
        n++;
    cr_assert_eq(n, 6 + 3 * RDMAD_NAMES_PER_REPLY, "%u", n);
    may.names.count = 0;
    cr_assert_str_eq(shown(e, ""), "");
    end_free(e);
}

Test(peer_rights, a_watch_tells_of_nothing_else) {
    struct peer_msg m = {.type = PEER_MSG_WATCH_REQ, .watch_req.ref = 3};
    struct end *e = greet();
    may.names = (struct policy_prefixes){.list = some, .count = 4};
    named("b.first");
    named("c.first");
    end_say(e, &m);
    cr_assert_str_eq(end_expect(e, PEER_MSG_NAME_EV).name_ev.entry.name, "b.first");
    cr_assert_str_eq(end_expect(e, PEER_MSG_NAME_EV).name_ev.entry.name, ""); /* that was all */
    for (int i = 0; i < 100; i++) { /* more than a watch may have on its way */
        char name[16];
        snprintf(name, sizeof(name), "c.%d", i);
        named(name);
    }
    named("d.last");
    cr_assert_str_eq(end_expect(e, PEER_MSG_NAME_EV).name_ev.entry.name, "d.last");
    end_free(e);
}

/* ---- how much ------------------------------------------------------------------------------ */

/* Another connection of the same name, which replaces none; it has said hello. */
static struct end *greet_again(void) {
    struct peer_msg hello = raw_hello();
    struct end *e = dial_as(node);
    memset(hello.hello.node_id, 9, sizeof(hello.hello.node_id));
    memset(hello.hello.line, 9, sizeof(hello.hello.line));
    cr_assert(end_shakes(e));
    end_say(e, &hello);
    return e;
}

Test(peer_rights, what_is_opened_counts_for_all_connections_of_a_name_until_it_is_let_go) {
    uint64_t each = lease->terms.length;
    struct peer_msg release = {.type = PEER_MSG_RELEASE};
    struct end *e = greet(), *again = greet_again();
    end_expect(again, PEER_MSG_HELLO);
    may.registered_bytes = 2 * each + each / 2;

    struct peer_attach_rep first = attach_of(e, lease, 5);
    cr_assert_eq(first.status, 0, "%s", first.text);
    cr_assert_eq(attach_of(again, lease, 6).status, 0);
    struct peer_attach_rep third = attach_of(e, lease, 7);
    cr_assert_eq(third.status, RDMAD_E_LIMIT);
    cr_assert(strstr(third.text, "\"registered_bytes\"") && strstr(third.text, "raw has"), "%s",
              third.text);
    release.release = (struct peer_release){.owner_ref = first.owner_ref, .returned = 1};
    end_say(e, &release);
    cr_assert_eq(attach_of(e, lease, 8).status, 0, "what was let go does not count");
    cr_assert_eq(attach_of(e, lease, 9).status, RDMAD_E_LIMIT);
    end_free(again);
    for (int i = 0; i < 400 && peers_count(rig.st.peers) > 1; i++) {
        fake_answer_all();
        pass_time();
    }
    cr_assert_eq(attach_of(e, lease, 10).status, 0, "what has gone does not count");
    end_free(e);
}

/* The third is refused, by whatever connection it comes, until one of the two is given back. */
static void two_attaches(const char *key, uint64_t used_each, size_t at) {
    struct peer_msg release = {.type = PEER_MSG_RELEASE};
    struct end *e = greet(), *again = greet_again();
    struct peer_use use;
    end_expect(again, PEER_MSG_HELLO);
    struct peer_attach_rep first = attach_of(e, lease, 5);
    cr_assert_eq(first.status, 0, "%s", first.text);
    cr_assert_eq(attach_of(again, lease, 6).status, 0);
    struct peer_attach_rep third = attach_of(e, lease, 7);
    cr_assert_eq(third.status, RDMAD_E_LIMIT, "%s", third.text);
    cr_assert(strstr(third.text, key) && strstr(third.text, "raw has"), "%s", third.text);
    fake_answer_all(); /* a refused one's end */
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(*(uint64_t *)((char *)&use + at), 2 * used_each);
    cr_assert_eq(use.connections, 2);
    release.release = (struct peer_release){.owner_ref = first.owner_ref, .returned = 1};
    end_say(e, &release);
    fake_answer_all();
    settle();
    fake_answer_all();
    cr_assert_eq(attach_of(e, lease, 8).status, 0, "what was let go does not count");
    cr_assert_eq(attach_of(again, lease, 9).status, RDMAD_E_LIMIT);
    end_free(again);
    end_free(e);
}

Test(peer_rights, attaches_count_for_all_connections_of_a_name) {
    may.attaches = 2;
    two_attaches("\"attaches\"", 1, offsetof(struct peer_use, attaches));
}

Test(peer_rights, what_may_notify_counts_as_all_that_may_wait) {
    may.notifications = 3 * RDMAD_NOTIFY_DEPTH - 1;
    two_attaches("\"notifications\"", RDMAD_NOTIFY_DEPTH, offsetof(struct peer_use, notifications));
}

/* Links that it has, and those that it says are gone until their worker has let go of them. */
Test(peer_rights, what_its_links_hold_counts_as_opened_until_they_are_gone) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req.hello.size = 1};
    struct peer_msg gone = {.type = PEER_MSG_LINK_GONE, .link_gone.via = 1};
    struct peer_use use;
    links_hold(1000);
    struct end *e = greet();
    cr_assert_eq(attach_of(e, lease, 5).status, 0);
    may.registered_bytes = lease->terms.length + 2999;
    for (unsigned i = 0; i < 2; i++) {
        end_say(e, &m);
        AWAIT(fake_pending(FAKE_OFFER) == 1);
        fake_answer_all();
        cr_assert_eq(end_expect(e, PEER_MSG_LINK_REP).link_rep.status, 0);
    }
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.registered_bytes, lease->terms.length + 2000);
    end_say(e, &m);
    struct peer_link_rep rep = end_expect(e, PEER_MSG_LINK_REP).link_rep;
    cr_assert_eq(rep.status, RDMAD_E_LIMIT);
    cr_assert(strstr(rep.text, "\"registered_bytes\""), "%s", rep.text);
    end_say(e, &gone);
    AWAIT(fake_pending(FAKE_FORGET) == 1);
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.registered_bytes, lease->terms.length + 2000, "its worker still has it");
    end_say(e, &m);
    cr_assert_eq(end_expect(e, PEER_MSG_LINK_REP).link_rep.status, RDMAD_E_LIMIT);
    fake_answer_all();
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.registered_bytes, lease->terms.length + 1000);

    /* Beyond what the fabric lets it have the oldest goes, and none more is held. */
    may.registered_bytes = UINT64_MAX;
    for (unsigned i = 0; i < 8; i++) {
        end_say(e, &m);
        AWAIT(fake_pending(FAKE_OFFER) == 1);
        fake_answer_all();
        cr_assert_eq(end_expect(e, PEER_MSG_LINK_REP).link_rep.status, 0);
    }
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.registered_bytes, lease->terms.length + 3000 * plane_workers(rig.st.plane));
    end_free(e);
}

Test(peer_rights, a_refused_link_hides_no_other_refusal_from_the_audit) {
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req.hello.size = 1};
    links_hold(1000);
    struct end *e = greet();
    cr_assert_eq(attach_of(e, lease, 5).status, 0);
    may.registered_bytes = lease->terms.length;
    refusals = 0;
    end_say(e, &m);
    cr_assert_eq(end_expect(e, PEER_MSG_LINK_REP).link_rep.status, RDMAD_E_LIMIT);
    cr_expect_eq(refusals, 1);
    attach_by_wrong_key(e, 8);
    cr_expect_eq(refusals, 2, "%u lines for a link and a wrong key", refusals);
    end_free(e);
}

Test(peer_rights, channels_count_for_all_connections_of_a_name) {
    struct service_terms terms = {.backlog = 8, .name = "svc"};
    struct end *e = greet(), *again = greet_again();
    struct peer_msg m = {.type = PEER_MSG_CHAN_REQ};
    struct service *sv;
    struct peer_use use;
    end_expect(again, PEER_MSG_HELLO);
    cr_assert_eq(service_listen(owner, &terms, &sv, NULL), 0);
    may.channels = 2;
    m.chan_req = (struct peer_chan_req){.ref = 7, .port = 1};
    m.chan_req.kind = m.chan_req.asked = RDMAD_CHANNEL_RELIABLE;
    strcpy(m.chan_req.service, "svc");
    end_say(e, &m);
    AWAIT(sv->waiting == 1);
    end_say(again, &m);
    AWAIT(sv->waiting == 2);
    m.chan_req.ref = 8;
    end_say(e, &m);
    struct peer_chan_refuse refuse = end_expect(e, PEER_MSG_CHAN_REFUSE).chan_refuse;
    cr_assert_eq(refuse.status, RDMAD_E_LIMIT);
    cr_assert(strstr(refuse.text, "\"channels\""), "%s", refuse.text);
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.channels, 2);
    service_close(sv);
    peers_use(rig.st.peers, "raw", &use);
    cr_assert_eq(use.channels, 0, "what was refused does not count");
    end_free(again);
    end_free(e);
}

Test(peer_rights, connections_of_a_name_are_as_many_as_its_policy_lets_it_have) {
    struct end *e = greet();
    may.connections = 1;
    struct end *again = greet_again();
    struct peer_msg bye = end_expect(again, PEER_MSG_BYE);
    cr_assert_eq(bye.bye.code, RDMAD_E_LIMIT);
    cr_assert(strstr(bye.bye.text, "\"connections\""), "%s", bye.bye.text);
    end_free(again);
    cr_assert_eq(attach_of(e, lease, 5).status, 0, "the one that is there goes on");
    end_free(e);
}

/* ---- for whom a lease is ------------------------------------------------------------------- */

static struct lease *lease_for(const char *peer) {
    struct lease_terms t = rig_terms(3600000);
    t.scope = RDMAD_SCOPE_PEER;
    strcpy(t.scope_peer, peer);
    strcpy(t.name, peer);
    return rig_grant_terms(owner, &t);
}

Test(peer_rights, a_lease_may_be_for_a_node_by_its_name) {
    struct lease *ours = lease_for("raw"), *others = lease_for("Raw"),
                 *here = lease_for("127.0.0.1");
    struct end *e = greet();
    cr_assert_eq(attach_of(e, ours, 5).status, 0);
    cr_assert_eq(attach_of(e, here, 6).status, 0);
    struct peer_attach_rep rep = attach_of(e, others, 7);
    cr_assert_eq(rep.status, RDMAD_E_SCOPE);
    cr_assert(strstr(rep.text, "at Raw only") && strstr(rep.text, "and is raw"), "%s", rep.text);
    cr_assert_str_eq(shown(e, ""), "127.0.0.1 raw ");
    end_free(e);
}

Test(peer_rights, a_lease_for_a_node_is_not_for_who_only_says_that_name) {
    identity_stop(&rig.st);
    struct lease *ours = lease_for("raw");
    struct raw *r = raw_greet();
    struct peer_msg m = raw_attach_req(ours, 5, 0);
    raw_send(r, &m);
    cr_assert_eq(raw_expect(r, PEER_MSG_ATTACH_REP).attach_rep.status, RDMAD_E_SCOPE);
    raw_close(r);
}
