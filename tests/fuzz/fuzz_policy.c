/* SPDX-License-Identifier: MIT */
/* Any text that is a configuration has a policy that decides of everybody, within its bounds. */
#include "daemon/state/policy.h"
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds)
        abort();
}

/* Every value is one that its key can have. */
static void check_values(const struct policy_value v[RULE_KEYS], unsigned whose) {
    char place[64];
    for (unsigned k = 0; k < RULE_KEYS; k++) {
        const struct rule_key_spec *spec = &rule_keys[k];
        if (!v[k].rule || !(spec->whose & whose))
            continue;
        require(policy_place(&v[k], place, sizeof(place))[0]);
        require(v[k].line > 0 && v[k].rule->value[k].set);
        require(spec->kind != RULE_BOOL || v[k].number <= 1);
        require(spec->kind != RULE_WORD_ADMIN || v[k].number <= ADMIN_ACT);
        require(spec->kind != RULE_WORDS_SCOPES || v[k].number < 8);
        require(spec->kind != RULE_LETTERS || v[k].number <= RDMAD_RIGHTS_ALL);
        require((spec->kind == RULE_LIST) == (v[k].list != NULL));
        if (spec->kind == RULE_NUMBER || spec->kind == RULE_SIGNED)
            require(!rule_check_number((enum rule_key)k, (int64_t)v[k].number, NULL));
    }
}

static void check_answer(int rc, const struct error *err) {
    require(rc == 0 || (rc == RDMAD_E_PERM && err->text[0]));
}

static void check_user(const struct policy *p, const struct config *c, uid_t uid, gid_t gid,
                       const char *socket) {
    const struct policy_who who = {.uid = uid, .gids = &gid, .ngids = 1, .socket = socket};
    struct user_policy u;
    struct quota_limits limits;
    struct error err;
    policy_user(p, &who, &u);
    check_values(u.value, RULE_OF_USER);
    require(uid || *socket || policy_admin(&u) == ADMIN_ACT);
    check_answer(policy_check_connect(&u, &err), &err);
    check_answer(policy_check_huge_pages(&u, &err), &err);
    check_answer(policy_check_grant(&u, RDMAD_SCOPE_UID, RDMAD_RIGHTS_ALL, &err), &err);
    check_answer(policy_check_attach(&u, RDMAD_RIGHT_WRITE, &err), &err);
    check_answer(policy_check_publish(&u, "name", &err), &err);
    check_answer(policy_check_reach(&u, "name", &err), &err);
    check_answer(policy_check_peer(&u, "host", &err), &err);
    const struct plane_share share = policy_user_share(&u);
    require(share.weight >= 1 && share.weight <= 10000 && abs(share.priority) <= 1);
    if (policy_limits(&u, c, &limits))
        require(limits.uid[QUOTA_SESSIONS] >= 1);
}

static void check_peer(const struct policy *p, const char *name) {
    const struct peer_policy *peer = policy_peer(p, name);
    check_values(peer->value, RULE_OF_PEER);
    require(peer->share.weight >= 1 && peer->share.weight <= 10000);
    (void)policy_prefixes_admit(&peer->names, "name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config c;
    struct error err;
    config_defaults(&c);
    if (config_parse(&c, "FILE", (const char *)data, size, &err)) {
        require(err.text[0] && !c.rules);
        return 0;
    }
    struct policy *p = policy_new(&c);
    require(p);
    check_user(p, &c, 0, 0, "");
    check_user(p, &c, 1000, 100, "");
    check_user(p, &c, 1000, 50, "blue");
    check_peer(p, "");
    check_peer(p, "node-1");
    policy_free(p);
    config_free(&c);
    return 0;
}
