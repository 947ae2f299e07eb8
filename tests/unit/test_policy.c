/* SPDX-License-Identifier: MIT */
/*
 * The policy: what is wrong in a rule is refused with its place, and what is right decides who may
 * do what, the last rule that matches and sets a key.
 */
#include "daemon/state/policy.h"
#include <criterion/criterion.h>
#include <inttypes.h>
#include <rdmad/abi.h>
#include <string.h>
#include <unistd.h>

static struct config config;
static struct policy *policy;

static void tear_down(void) {
    policy_free(policy);
    policy = NULL;
    config_free(&config);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
static bool no_memory;

char *__wrap_strdup(const char *text) {
    return no_memory ? NULL : __real_strdup(text);
}

TestSuite(policy, .fini = tear_down);

static void have(const char *text) {
    struct error err = {0};
    tear_down(); /* what it had before */
    config_defaults(&config);
    cr_assert_eq(config_parse(&config, "F", text, strlen(text), &err), 0, "%s", err.text);
    policy = policy_new(&config);
    cr_assert_not_null(policy);
}

/* ---- what is wrong ------------------------------------------------------------------------- */

Test(policy, what_is_wrong_is_refused_with_its_place) {
    static const struct {
        const char *text, *sentence;
    } wrong[] = {
        {"{\"policy\": 1}", "F:1:12: policy must be an object, this is an integer"},
        {"{\"policy\": {\"user\": []}}",
         "F:1:13: policy has rules for \"users\" and for \"peers\""},
        {"{\"policy\": {\"users\": {}}}",
         "F:1:22: users must be a list of rules, [{ ... }, ...], this is an object"},
        {"{\"policy\": {\"users\": [{}, 7]}}",
         "F:1:27: a rule must be an object, this is an integer"},
        {"{\"policy\": {\"users\": [\n {},\n {\"match\": {\"uid\": -1}}]}}",
         "F:3:20: uid is -1, must be from 0 to 4294967294"},
        {"{\"policy\": {\"users\": [{\"match\": {\"uid\": \"ann\"}}]}}",
         "F:1:41: uid must be a number; a name goes into \"user\" or \"group\", this is a text"},
        {"{\"policy\": {\"users\": [{\"match\": {\"user\": \"no-such-user\"}}]}}",
         "F:1:42: user \"no-such-user\": this machine has no such user"},
        {"{\"policy\": {\"users\": [{\"match\": {\"group\": \"no-such-group\"}}]}}",
         "F:1:43: group \"no-such-group\": this machine has no such group"},
        {"{\"policy\": {\"users\": [{\"match\": {\"uid\": 0, \"user\": \"root\"}}]}}",
         "F:1:44: a rule has \"uid\" or \"user\", not both"},
        {"{\"policy\": {\"users\": [{\"match\": {\"name\": \"a\"}}]}}",
         "F:1:34: users are matched by \"uid\" or \"user\", \"gid\" or \"group\", and \"socket\""},
        {"{\"policy\": {\"peers\": [{\"match\": {\"uid\": 1}}]}}",
         "F:1:34: peers are matched by \"name\""},
        {"{\"policy\": {\"peers\": [{\"match\": {\"name\": \"a*b\"}}]}}",
         "F:1:42: name \"a*b\": must be a node's name, the beginning of one and a '*', or "
         "*unnamed*"},
        {"{\"policy\": {\"users\": [{\"connect\": 1}]}}",
         "F:1:35: connect must be true or false, this is an integer"},
        {"{\"policy\": {\"users\": [{\"admin\": \"root\"}]}}",
         "F:1:33: admin must be one of \"none\", \"own\", \"all\", \"act\""},
        {"{\"policy\": {\"users\": [{\"scopes\": [\"any\", \"all\"]}]}}",
         "F:1:42: scopes may have \"any\", \"peer\" and \"uid\""},
        {"{\"policy\": {\"users\": [{\"grant_rights\": \"rx\"}]}}",
         "F:1:40: grant_rights \"rx\": may have r (read), w (write), a (atomic) and d (delegate)"},
        {"{\"policy\": {\"users\": [{\"names\": [\"a\", \".b\"]}]}}",
         "F:1:39: names \".b\": no name begins so"},
        {"{\"policy\": {\"users\": [{\"weight\": 0}]}}",
         "F:1:34: weight is 0, must be from 1 to 10000"},
        {"{\"policy\": {\"users\": [{\"priority\": 2}]}}",
         "F:1:36: priority is 2, must be -1 (low), 0 or 1 (high)"},
        {"{\"policy\": {\"users\": [{\"limits\": {\"sessions_per_uid\": 0}}]}}",
         "F:1:55: sessions_per_uid is 0, must be from 1 to 65536"},
        {"{\"sockets\": [{\"path\": \"/a\"}]}",
         "F:1:14: a socket needs a \"tenant\", by which rules match it"},
        {"{\"sockets\": [{\"tenant\": \"a\", \"path\": \"b\"}]}",
         "F:1:38: path must be absolute and of at most 107 bytes, as the addresses of Unix "
         "sockets are"},
        {"{\"sockets\": [{\"tenant\": \"a\", \"mode\": \"68\"}]}",
         "F:1:38: mode must be a text of octal digits, as \"0660\""},
        {"{\"sockets\": [{\"tenant\": \"a\"},\n{\"tenant\": \"a\"}]}",
         "F:2:1: another socket has the same tenant"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct config c, before;
        struct error err = {0};
        config_defaults(&c);
        before = c;
        cr_expect_eq(config_parse(&c, "F", wrong[i].text, strlen(wrong[i].text), &err),
                     RDMAD_E_CONFIG, "%s", wrong[i].text);
        cr_expect_eq(memcmp(&c, &before, sizeof(c)), 0, "%s changed something", wrong[i].text);
        cr_expect_str_eq(err.text, wrong[i].sentence);
    }
}

Test(policy, an_unknown_key_is_told_with_those_that_there_are) {
    static const struct {
        const char *text, *begin, *has;
    } wrong[] = {
        {"{\"policy\": {\"users\": [{\"dials\": true}]}}", "F:1:24: unknown key \"dials\"",
         "match, limits, connect, admin"},
        {"{\"policy\": {\"peers\": [{\"connect\": true}]}}", "F:1:24: unknown key \"connect\"",
         "match, names, dials, dialled"},
        {"{\"policy\": {\"users\": [{\"limits\": {\"pool_bytes\": 1}}]}}",
         "F:1:35: unknown key \"pool_bytes\"", "sessions_per_uid, pool_bytes_per_uid"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct config c;
        struct error err = {0};
        config_defaults(&c);
        cr_expect_eq(config_parse(&c, "F", wrong[i].text, strlen(wrong[i].text), &err),
                     RDMAD_E_CONFIG);
        cr_expect_eq(strncmp(err.text, wrong[i].begin, strlen(wrong[i].begin)), 0, "%s", err.text);
        cr_expect_not_null(strstr(err.text, wrong[i].has), "%s", err.text);
    }
}

/* ---- who may do what ----------------------------------------------------------------------- */

static struct user_policy user(uid_t uid, gid_t gid, const char *socket) {
    const struct policy_who who = {.uid = uid, .gids = &gid, .ngids = 1, .socket = socket};
    struct user_policy u;
    policy_user(policy, &who, &u);
    return u;
}

Test(policy, without_rules_all_is_allowed_but_administration) {
    struct user_policy u = user(1000, 1000, "");
    cr_expect_eq(policy_check_connect(&u, NULL), 0);
    cr_expect_eq(policy_check_huge_pages(&u, NULL), 0);
    cr_expect_eq(policy_check_grant(&u, RDMAD_SCOPE_ANY, RDMAD_RIGHTS_ALL, NULL), 0);
    cr_expect_eq(policy_check_attach(&u, RDMAD_RIGHTS_ALL, NULL), 0);
    cr_expect_eq(policy_check_publish(&u, "x", NULL), 0);
    cr_expect_eq(policy_check_reach(&u, "x", NULL), 0);
    cr_expect_eq(policy_check_peer(&u, "x", NULL), 0);
    cr_expect_eq(policy_admin(&u), ADMIN_OWN);
    struct user_policy root = user(0, 0, ""), boxed = user(0, 0, "blue");
    cr_expect_eq(policy_admin(&root), ADMIN_ACT);
    cr_expect_eq(policy_admin(&boxed), ADMIN_OWN, "root of a tenant's container administers");
    const struct peer_policy *p = policy_peer(policy, "any");
    cr_expect(p->dials && p->dialled && p->attach && p->names.any);
    cr_expect_eq(p->registered_bytes, UINT64_MAX);
    cr_expect_eq(p->share.weight, 100);
}

static const char rules[] =
    "{\"policy\": {\"users\": [\n"
    "{\"connect\": false, \"admin\": \"none\"},\n"
    "{\"match\": {\"gid\": 50}, \"connect\": true, \"names\": [\"team.\"],\n"
    " \"services\": [\"db.\", \"team.\"], \"scopes\": [\"uid\"]},\n"
    "{\"match\": {\"uid\": 1001}, \"connect\": true, \"admin\": \"all\",\n"
    " \"grant_rights\": \"r\", \"attach_rights\": \"rw\"},\n"
    "{\"match\": {\"socket\": \"blue\"}, \"connect\": true,\n"
    " \"huge_pages\": false, \"peers\": [\"node-*\", \"far\"]},\n"
    "{\"match\": {\"uid\": 1002, \"gid\": 50}, \"names\": []}\n"
    "]}}";

enum action {
    CONNECT,
    HUGE,
    GRANT_ANY_R,
    GRANT_UID_R,
    GRANT_UID_W,
    ATTACH_W,
    ATTACH_A,
    NAME,
    REACH,
    PEER_NODE,
    PEER_FAR,
    PEER_OTHER
};

static int decide(const struct user_policy *u, enum action what, struct error *err) {
    switch (what) {
    case CONNECT:
        return policy_check_connect(u, err);
    case HUGE:
        return policy_check_huge_pages(u, err);
    case GRANT_ANY_R:
        return policy_check_grant(u, RDMAD_SCOPE_ANY, RDMAD_RIGHT_READ, err);
    case GRANT_UID_R:
        return policy_check_grant(u, RDMAD_SCOPE_UID, RDMAD_RIGHT_READ, err);
    case GRANT_UID_W:
        return policy_check_grant(u, RDMAD_SCOPE_UID, RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE, err);
    case ATTACH_W:
        return policy_check_attach(u, RDMAD_RIGHT_WRITE, err);
    case ATTACH_A:
        return policy_check_attach(u, RDMAD_RIGHT_ATOMIC, err);
    case NAME:
        return policy_check_publish(u, "team.x", err);
    case REACH:
        return policy_check_reach(u, "teamwork", err);
    case PEER_NODE:
        return policy_check_peer(u, "node-7", err);
    case PEER_FAR:
        return policy_check_peer(u, "far", err);
    default:
        return policy_check_peer(u, "farther", err);
    }
}

/* A row a decision: who, what, and the place of the rule that refuses; NULL: it is allowed. */
Test(policy, the_last_rule_that_matches_and_sets_a_key_decides) {
    have(rules);
    static const struct {
        uid_t uid;
        gid_t gid;
        const char *socket;
        enum action what;
        const char *refused;
    } row[] = {
        {1000, 1000, "", CONNECT, "F:2"},     {1000, 50, "", CONNECT, NULL},
        {1001, 1001, "", CONNECT, NULL},      {1000, 1000, "blue", CONNECT, NULL},
        {1000, 1000, "red", CONNECT, "F:2"},  {0, 0, "", CONNECT, "F:2"},
        {1000, 50, "", HUGE, NULL},           {1000, 50, "blue", HUGE, "F:8"},
        {1000, 50, "", GRANT_ANY_R, "F:4"},   {1000, 50, "", GRANT_UID_R, NULL},
        {1000, 50, "", GRANT_UID_W, NULL},    {1001, 50, "", GRANT_UID_W, "F:6"},
        {1001, 50, "", GRANT_UID_R, NULL},    {1001, 1, "", GRANT_ANY_R, NULL},
        {1001, 1, "", ATTACH_W, NULL},        {1001, 1, "", ATTACH_A, "F:6"},
        {1000, 1, "", ATTACH_A, NULL},        {1000, 50, "", NAME, NULL},
        {1002, 50, "", NAME, "F:9"},          {1002, 1, "", NAME, NULL},
        {1000, 50, "", REACH, "F:4"},         {1000, 1, "", REACH, NULL},
        {1000, 1, "blue", PEER_NODE, NULL},   {1000, 1, "blue", PEER_FAR, NULL},
        {1000, 1, "blue", PEER_OTHER, "F:8"}, {1000, 1, "", PEER_OTHER, NULL},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct user_policy u = user(row[i].uid, row[i].gid, row[i].socket);
        struct error err = {0};
        int rc = decide(&u, row[i].what, &err);
        cr_expect_eq(rc, row[i].refused ? RDMAD_E_PERM : 0, "row %zu: %s", i, err.text);
        if (row[i].refused) {
            char want[80];
            snprintf(want, sizeof(want), "of the policy, %s", row[i].refused);
            cr_expect_not_null(strstr(err.text, want), "row %zu: %s", i, err.text);
        }
    }
}

Test(policy, root_administers_whatever_the_rules_say_and_others_as_they_say) {
    have(rules);
    struct user_policy root = user(0, 0, ""), none = user(1000, 1, ""), all = user(1001, 1, "");
    cr_expect_eq(policy_admin(&root), ADMIN_ACT);
    cr_expect_eq(policy_admin(&none), ADMIN_NONE);
    cr_expect_eq(policy_admin(&all), ADMIN_ALL);
}

Test(policy, limits_of_a_user_take_the_place_of_everybodys) {
    struct quota_limits l;
    have("{\"policy\": {\"users\": [{\"match\": {\"uid\": 1000}, \"limits\": {\n"
         "\"sessions_per_uid\": 3, \"pool_bytes_per_uid\": 4096, \"waits_per_uid\": 64}}]}}");
    struct user_policy u = user(1000, 1, ""), other = user(1001, 1, "");
    cr_assert(policy_limits(&u, &config, &l));
    cr_expect_eq(l.uid[QUOTA_SESSIONS], 3);
    cr_expect_eq(l.uid[QUOTA_BYTES], 4096);
    cr_expect_eq(l.total[QUOTA_SESSIONS], config.max_sessions);
    cr_expect_not(policy_limits(&other, &config, &l));
    struct config own;
    policy_settings(&u, &config, &own);
    cr_expect_eq(own.max_waits_uid, 64);
    cr_expect_eq(own.max_ops_uid, config.max_ops_uid);
}

Test(policy, what_is_set_at_run_time_is_a_last_rule) {
    struct error err = {0};
    char place[300];
    have("{\"policy\": {\"users\": [{\"match\": {\"uid\": 1000}, \"weight\": 300}],\n"
         "\"peers\": [{\"match\": {\"name\": \"n*\"}, \"weight\": 50, \"attach\": false}]}}");
    struct user_policy u = user(1000, 1, "");
    cr_expect_eq(policy_user_share(&u).weight, 300);
    cr_assert_eq(policy_set(policy, 1000, NULL, RULE_WEIGHT, 7, &err), 0, "%s", err.text);
    cr_assert_eq(policy_set(policy, 1000, NULL, RULE_PRIORITY, -1, &err), 0, "%s", err.text);
    u = user(1000, 1, "");
    cr_expect_eq(policy_user_share(&u).weight, 7);
    cr_expect_eq(policy_user_share(&u).priority, -1);
    cr_expect_str_eq(policy_place(&u.value[RULE_WEIGHT], place, sizeof(place)), "set at run time");
    u = user(1001, 1, "");
    cr_expect_eq(policy_user_share(&u).weight, 100);
    cr_assert_eq(policy_set(policy, 0, "n1", RULE_WEIGHT, 60, &err), 0, "%s", err.text);
    cr_expect_eq(policy_peer(policy, "n1")->share.weight, 60);
    cr_expect_eq(policy_peer(policy, "n2")->share.weight, 50);
    cr_expect_not(policy_peer(policy, "n1")->attach);
    cr_expect_eq(policy_set(policy, 1000, NULL, RULE_WEIGHT, 0, &err), RDMAD_E_INVAL);
    cr_expect_eq(policy_set(policy, 1000, NULL, RULE_CONNECT, 1, &err), RDMAD_E_INVAL);
    cr_expect_eq(policy_set(policy, 1000, NULL, RULE_REGISTERED_BYTES, 1, &err), RDMAD_E_INVAL);
    cr_expect_eq(policy_live(policy)->nusers, 1, "one rule a user");
}

Test(policy, what_is_set_of_a_tenants_user_counts_before_what_is_set_of_its_uid) {
    struct error err = {0};
    have("{\"policy\": {\"users\": [{\"match\": {\"socket\": \"red\"}, \"weight\": 300}]}}");
    cr_assert_eq(policy_set_tenant(policy, 1000, "blue", RULE_WEIGHT, 7, &err), 0, "%s", err.text);
    cr_assert_eq(policy_set(policy, 1000, NULL, RULE_WEIGHT, 9, &err), 0, "%s", err.text);
    cr_assert_eq(policy_set(policy, 1000, NULL, RULE_PRIORITY, 1, &err), 0, "%s", err.text);
    struct user_policy blue = user(1000, 1, "blue"), red = user(1000, 1, "red");
    struct user_policy other = user(1001, 1, "blue"), own = user(1000, 1, "");
    cr_expect_eq(policy_user_share(&blue).weight, 7);
    cr_expect_eq(policy_user_share(&blue).priority, 1, "of the uid by all sockets");
    cr_expect_eq(policy_user_share(&red).weight, 9);
    cr_expect_eq(policy_user_share(&own).weight, 9);
    cr_expect_eq(policy_user_share(&other).weight, 100);
    cr_expect_eq(policy_live(policy)->nusers, 2);
}

/* Each limit of a peer: by a rule, at run time, and what holds where neither says anything. */
Test(policy, every_limit_of_a_peer_is_set_by_its_name) {
    static const struct {
        const char *name;
        enum rule_key key;
        size_t at;
        uint64_t otherwise;
    } limits[] = {
#define LIMIT(NAME, KEY, OTHERWISE) {#NAME, KEY, offsetof(struct peer_policy, NAME), OTHERWISE}
        LIMIT(registered_bytes, RULE_REGISTERED_BYTES, UINT64_MAX),
        LIMIT(attaches, RULE_ATTACHES, UINT64_MAX),
        LIMIT(notifications, RULE_NOTIFICATIONS, UINT64_MAX),
        LIMIT(channels, RULE_CHANNELS, UINT64_MAX),
        LIMIT(connections, RULE_CONNECTIONS, UINT64_MAX),
        LIMIT(messages_per_second, RULE_MESSAGES_PER_SECOND, 0),
        LIMIT(questions_per_second, RULE_QUESTIONS_PER_SECOND, 0),
#undef LIMIT
    };
    char text[300];
    struct error err;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
#define VALUE(of) (*(const uint64_t *)((const char *)policy_peer(policy, of) + limits[i].at))
        snprintf(text, sizeof(text),
                 "{\"policy\": {\"peers\": [{\"match\": {\"name\": \"n*\"}, \"%s\": 77}]}}",
                 limits[i].name);
        have(text);
        cr_expect_eq(VALUE("n1"), 77, "%s", limits[i].name);
        cr_expect_eq(VALUE("m1"), limits[i].otherwise, "%s", limits[i].name);
        cr_assert_eq(policy_set(policy, 0, "n1", limits[i].key, 5, &err), 0, "%s", err.text);
        cr_expect_eq(VALUE("n1"), 5, "%s", limits[i].name);
        cr_expect_eq(VALUE("n2"), 77, "%s", limits[i].name);
        cr_expect_eq(policy_set(policy, 0, "n1", limits[i].key, -1, &err), RDMAD_E_INVAL);
        cr_expect_eq(policy_set(policy, 1000, NULL, limits[i].key, 5, &err), RDMAD_E_INVAL,
                     "%s is no limit of a user", limits[i].name);
#undef VALUE
    }
}

/* A rule that says nothing of whom it is for would be the one of uid 0. */
Test(policy, a_limit_that_finds_no_memory_leaves_no_rule) {
    struct error err;
    have("{}");
    no_memory = true;
    cr_expect_neq(policy_set(policy, 1000, NULL, RULE_WEIGHT, 5, &err), 0);
    cr_expect_neq(policy_set(policy, 0, "n1", RULE_CHANNELS, 5, &err), 0);
    no_memory = false;
    cr_expect_eq(policy_live(policy)->nusers, 0, "a user's rule is left");
    cr_expect_eq(policy_live(policy)->npeers, 0, "a peer's rule is left");
    cr_expect_eq(policy_set(policy, 1000, NULL, RULE_WEIGHT, 5, &err), 0);
    cr_expect_eq(policy_live(policy)->users[0]->uid, 1000);
}

Test(policy, peers_are_known_by_name_and_those_without_identity_by_a_word) {
    have("{\"policy\": {\"peers\": [\n"
         "{\"dials\": false, \"attach\": false},\n"
         "{\"match\": {\"name\": \"node-*\"}, \"dials\": true, \"attach\": true,\n"
         " \"names\": [\"pub.\"], \"registered_bytes\": 4096},\n"
         "{\"match\": {\"name\": \"*unnamed*\"}, \"dialled\": false}]}}");
    const struct peer_policy *p = policy_peer(policy, "node-1");
    cr_expect(p->dials && p->attach && p->dialled);
    cr_expect(policy_prefixes_admit(&p->names, "pub.x"));
    cr_expect_not(policy_prefixes_admit(&p->names, "private"));
    cr_expect_eq(p->registered_bytes, 4096);
    p = policy_peer(policy, "");
    cr_expect(!p->dials && !p->attach && !p->dialled && p->names.any);
    p = policy_peer(policy, "stranger");
    cr_expect(!p->dials && !p->attach && p->dialled);
}

Test(policy, a_policy_that_is_null_is_one_without_rules) {
    struct user_policy u = user(1000, 1, "");
    cr_expect_eq(policy_check_connect(&u, NULL), 0);
    cr_expect(policy_peer(NULL, "x")->dials);
}
