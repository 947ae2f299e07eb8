/* SPDX-License-Identifier: MIT */
/*
 * rules.h - the rules of "policy" and the sockets of "sockets", as they stand in the files.
 *
 * A rule says whom it is about and sets some keys. Rules are in the order in which they were read:
 * of those that match somebody, the last one that sets a key decides it. state/policy.c does that.
 */
#ifndef RDMAD_CONFIG_RULES_H
#define RDMAD_CONFIG_RULES_H

#include "daemon/base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a rule can set. The table rule_keys says of each who has it and which values it takes. */
enum rule_key {
    RULE_CONNECT,      /* users */
    RULE_ADMIN,        /* enum rule_admin */
    RULE_HUGE_PAGES,   /* pools of huge pages */
    RULE_SCOPES,       /* of leases and services, 1 << enum rdmad_scope */
    RULE_GRANT_RIGHTS, /* RDMAD_RIGHT_* */
    RULE_ATTACH_RIGHTS,
    RULE_NAMES, /* of users: what they publish begins so; of peers: what they may reach */
    RULE_SERVICES,
    RULE_PEERS,
    RULE_DIALS, /* peers */
    RULE_DIALLED,
    RULE_ATTACH,
    RULE_REGISTERED_BYTES,
    RULE_ATTACHES,
    RULE_NOTIFICATIONS,
    RULE_CHANNELS,
    RULE_CONNECTIONS,
    RULE_MESSAGES_PER_SECOND,
    RULE_QUESTIONS_PER_SECOND,
    RULE_WEIGHT, /* both: a share */
    RULE_BYTES_PER_SECOND,
    RULE_OPS_PER_SECOND,
    RULE_PRIORITY,
    RULE_LIMITS, /* users, from here on: settings "limits.NAME" */
    RULE_SESSIONS_PER_UID = RULE_LIMITS,
    RULE_POOL_BYTES_PER_UID,
    RULE_POOL_BYTES_PER_SESSION,
    RULE_REGISTERED_BYTES_PER_UID,
    RULE_REGISTERED_BYTES_PER_SESSION,
    RULE_POOLS_PER_UID,
    RULE_POOLS_PER_SESSION,
    RULE_RINGS_PER_UID,
    RULE_RINGS_PER_SESSION,
    RULE_LEASES_PER_UID,
    RULE_LEASES_PER_SESSION,
    RULE_ATTACHES_PER_UID,
    RULE_ATTACHES_PER_SESSION,
    RULE_SERVICES_PER_UID,
    RULE_SERVICES_PER_SESSION,
    RULE_CHANNELS_PER_UID,
    RULE_CHANNELS_PER_SESSION,
    RULE_QUESTIONS_PER_UID,
    RULE_QUESTIONS_PER_SESSION,
    RULE_MAPPINGS_PER_UID,
    RULE_OPS_PER_UID,
    RULE_WAITS_PER_UID,
    RULE_WAITS_PER_SESSION,
    RULE_CALLS_PER_SECOND_PER_UID,
    RULE_KEYS
};

enum rule_admin { ADMIN_NONE, ADMIN_OWN, ADMIN_ALL, ADMIN_ACT };

enum rule_kind {
    RULE_BOOL,
    RULE_NUMBER,
    RULE_SIGNED, /* -1, 0 or 1 */
    RULE_WORD_ADMIN,
    RULE_WORDS_SCOPES, /* a list */
    RULE_LETTERS,      /* rights: "rwad" */
    RULE_LIST          /* of beginnings of names, or of patterns */
};

#define RULE_OF_USER 1u
#define RULE_OF_PEER 2u

struct rule_key_spec {
    const char *name; /* of a limit without "limits." */
    enum rule_kind kind;
    unsigned whose;    /* RULE_OF_* */
    uint64_t min, max; /* of numbers */
};
extern const struct rule_key_spec rule_keys[RULE_KEYS];

/* RULE_KEYS: there is no such key for them. limit: whether it is looked for among the limits. */
enum rule_key rule_key_find(const char *name, unsigned whose, bool limit);

struct rule_list {
    char **text;
    unsigned count;
};

struct rule_value {
    bool set;
    unsigned line;
    uint64_t number; /* all kinds but lists; RULE_SIGNED as int64_t */
    struct rule_list list;
};

struct rule {
    char *file;
    bool by_uid, by_gid, by_socket; /* users: all that are set must fit; none: everybody */
    uid_t uid;
    gid_t gid;
    char socket[RDMAD_NAME_MAX + 1];
    char
        peer[RDMAD_NAME_MAX + 2]; /* peers: a name, a beginning with a '*' behind it, or as below */
    struct rule_value value[RULE_KEYS];
};
#define RULE_UNNAMED "*unnamed*" /* peers without identity */

/* One more socket for clients, which tells whose container they are in. */
struct rule_socket {
    char tenant[RDMAD_NAME_MAX + 1];
    char path[108]; /* "": RUNTIME_DIR/tenants/TENANT/rdmad.sock */
    uid_t user;     /* (uid_t)-1: the daemon's */
    gid_t group;    /* likewise */
    mode_t mode;
    unsigned line;
};

#define RULES_MAX 1024u
#define RULE_SOCKETS_MAX 64u
#define RULE_LIST_MAX 256u

struct rules {
    struct rule **users, **peers; /* in their order */
    unsigned nusers, npeers;
    struct rule_socket *sockets;
    unsigned nsockets;
};

struct rules *rules_new(void); /* NULL: out of memory */
void rules_free(struct rules *r);
/* Each adds one at the end, which is zero. NULL: out of memory. */
struct rule *rules_add(struct rules *r, bool peer, const char *file);
struct rule_socket *rules_add_socket(struct rules *r);
/* Appends a copy of text. */
int rule_list_add(struct rule_list *list, const char *text); /* 0 or RDMAD_E_NOMEM */
void rule_value_clear(struct rule_value *v);
/* Whether both say the same of the same, wherever they stand. */
bool rule_same(const struct rule *a, const struct rule *b);
unsigned rule_line(const struct rule *r); /* the first that sets something; 0: none does */
/* Whether the same sockets are described. */
bool rules_same_sockets(const struct rules *a, const struct rules *b);

/* Whether text is a peer's name, the beginning of some with a '*' behind it, or RULE_UNNAMED. */
bool rule_pattern_ok(const char *text);
/* Whether such a pattern is the beginning of names. */
bool rule_pattern_is_beginning(const char *pattern);

/* Checks a number for a key. err's sentence names the key and what is allowed. */
int rule_check_number(enum rule_key key, int64_t value, struct error *err);
/* "act", and 0 to 3; -1: no such word. */
int rule_admin_of(const char *word);
const char *rule_admin_word(enum rule_admin admin);

#endif
