/* SPDX-License-Identifier: MIT */
/*
 * origin.c - proofs are given and checked.
 */
#include "daemon/state/origin.h"
#include "daemon/base/hole_guard.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

RDMAD_STATIC_ASSERT(RDMAD_RESUME_SECRET_BYTES == HASH_BYTES, "a proof is one hash");

#define GENERATIONS (UINT32_C(1) << 19) /* of a number, in one life */
#define USED_UP 64u /* places whose generations a life may have used up; slots.h */

/* What is hashed has no padding, and each kind a tag of its own. */
struct session_words {
    char tag[8];
    uint64_t life, session, uid, tenant;
};
struct lease_words {
    char tag[8];
    uint64_t life, session, lease;
};
struct part_words {
    char tag[8];
    uint64_t life, session, lease, parent, pool, offset, length, deadline_ns;
    uint64_t rights, max_attaches;
};

/* The tenant's name, for its number is another one when the next life has other sockets. */
static uint64_t tenant_word(const struct session *s) {
    uint8_t hash[HASH_BYTES];
    uint64_t word;
    if (!s->tenant)
        return 0;
    hash_keyed(s->state->resume_key, s->who.socket, strlen(s->who.socket), hash);
    memcpy(&word, hash, sizeof(word));
    return word;
}

static void origin_secret(const struct session *s, uint64_t life, uint64_t session,
                          uint8_t out[HASH_BYTES]) {
    const struct session_words words = {.tag = "session",
                                        .life = life,
                                        .session = session,
                                        .uid = s->uid,
                                        .tenant = tenant_word(s)};
    hash_keyed(s->state->resume_key, &words, sizeof(words), out);
}

void origin_lease_key(const struct session *s, uint64_t lease, uint8_t out[RDMAD_KEY_BYTES]) {
    const struct lease_words words = {
        .tag = "lease", .life = s->origin.life, .session = s->origin.session, .lease = lease};
    uint8_t hash[HASH_BYTES];
    assert(origin_is_set(s));
    hash_keyed(s->state->resume_key, &words, sizeof(words), hash);
    memcpy(out, hash, RDMAD_KEY_BYTES);
}

void origin_part_proof(const struct session *s, const struct rdmad_part *part,
                       uint8_t out[RDMAD_RESUME_SECRET_BYTES]) {
    const struct part_words words = {.tag = "part",
                                     .life = s->origin.life,
                                     .session = s->origin.session,
                                     .lease = part->lease,
                                     .parent = part->parent,
                                     .pool = part->pool,
                                     .offset = part->offset,
                                     .length = part->length,
                                     .deadline_ns = part->deadline_ns,
                                     .rights = part->rights,
                                     .max_attaches = part->max_attaches};
    assert(origin_is_set(s));
    hash_keyed(s->state->resume_key, &words, sizeof(words), out);
}

bool origin_same_key(const uint8_t *a, const uint8_t *b, size_t bytes) {
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < bytes; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

static bool has_objects(const struct session *s) {
    return s->rings.size || s->pools.size || s->handles.size || s->channels.size ||
           !list_empty(&s->services) || !list_empty(&s->watches) || s->account.used[QUOTA_POOLS] ||
           s->account.used[QUOTA_RINGS];
}

static int check_fresh(const struct session *s, struct error *err) {
    if (!s->state->life.number || hole_guard_missing())
        return error_set(err, RDMAD_E_UNSUPPORTED, "sessions cannot be resumed here: %s",
                         s->state->life.number ? hole_guard_missing()
                                               : "the node has no secret of its own");
    if (s->uid_account->lies)
        return error_set(err, RDMAD_E_UNSUPPORTED,
                         "sessions of uid %u cannot be resumed until rdmad starts again: memory of "
                         "it has vanished, or had holes",
                         (unsigned)s->uid);
    if (origin_is_set(s) || has_objects(s))
        return error_set(
            err, RDMAD_E_PROTOCOL,
            "a session can be made one that can be resumed once, before it has a pool, "
            "a ring or anything else");
    return 0;
}

/* What the client knows of an earlier life, and does not bring back, is never taken for something
 * new: the generations of each life end before those of the next begin. */
static void begin_numbers(struct session *s, uint32_t first) {
    RDMAD_STATIC_ASSERT(LIFE_LAST <= UINT32_MAX / GENERATIONS, "generations last for all lives");
    uint32_t last = s->state->life.number * GENERATIONS + (GENERATIONS - 1);
    slots_begin(&s->pools, first, last);
    slots_begin(&s->rings, first, last);
    slots_begin(&s->handles, first, last);
    slots_begin(&s->channels, first, last);
}

int origin_offer(struct session *s, struct rdmad_resume_proof *out, struct error *err) {
    int rc = check_fresh(s, err);
    if (rc)
        return rc;
    s->origin = (struct session_origin){.life = s->state->life.number, .session = s->id};
    *out = (struct rdmad_resume_proof){.life = s->origin.life, .session = s->origin.session};
    origin_secret(s, out->life, out->session, out->secret);
    begin_numbers(s, 1);
    return 0;
}

static bool is_held(const struct state *st, uint64_t life, uint64_t session) {
    list_for_each (node, &st->sessions) {
        const struct session *other = list_entry(node, struct session, node);
        if (other->origin.life == life && other->origin.session == session)
            return true;
    }
    return false;
}

int origin_resume(struct session *s, const struct rdmad_resume_proof *proof, struct error *err) {
    uint8_t secret[HASH_BYTES];
    int rc = check_fresh(s, err);
    if (rc)
        return rc;
    origin_secret(s, proof->life, proof->session, secret);
    if (!proof->life || !origin_same_key(secret, proof->secret, sizeof(secret)))
        return error_set(err, RDMAD_E_PERM,
                         "no session of this user at this rdmad has such a proof; open a new one");
    if (is_held(s->state, proof->life, proof->session))
        return error_set(err, RDMAD_E_BUSY,
                         "the session that is to be resumed has not ended yet; try again");
    s->origin =
        (struct session_origin){.life = proof->life, .session = proof->session, .resumed = true};
    begin_numbers(s, s->state->life.number * GENERATIONS + 1);
    s->watch_numbers = (uint64_t)s->state->life.number << 32;
    return 0;
}

int origin_check_resumed(const struct session *s, const char *what, struct error *err) {
    if (s->origin.resumed)
        return 0;
    return error_set(err, RDMAD_E_PROTOCOL,
                     "%s can be brought back only to a session that was resumed", what);
}

void origin_memory_vanished(struct session *s) {
    if (origin_is_set(s))
        s->uid_account->lies++;
}

int origin_check_number(const struct session *s, uint64_t number, enum quota_resource what,
                        uint32_t more, const char *words, struct error *err) {
    const struct quota_limits *l = quota_limits_of(&s->state->quota, s->uid_account);
    uint64_t index = (uint32_t)number;
    if (number && (l->session[what] == UINT64_MAX || index < l->session[what] + more + USED_UP))
        return 0;
    return error_set(err, RDMAD_E_HANDLE,
                     "%" PRIx64 " is no number that a %s of this session can have had", number,
                     words);
}
