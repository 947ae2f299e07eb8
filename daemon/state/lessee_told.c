/* SPDX-License-Identifier: MIT */
/*
 * lessee_told.c - see lessee_told.h.
 */
#include "daemon/state/lessee_told.h"
#include "daemon/base/audit.h"
#include "daemon/base/events.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char scheme[] = "rdmad://";

/* The owner's HOST:PORT, up to a slash; "/": this daemon, which a link may lead to, too. NULL: it
 * is not known. */
static const char *owner_in(const char *uri) {
    size_t length = sizeof(scheme) - 1;
    return strncmp(uri, scheme, length) ? NULL : uri + length;
}

static bool uri_is_ours(const char *uri) {
    const char *owner = uri ? owner_in(uri) : "/";
    return owner && *owner == '/';
}

static struct audit_object object_of(const struct session *s, uint64_t lease, const char *uri) {
    return audit_object_of(uri_is_ours(uri) ? "lease" : "attach", lease, s->id);
}

/* What follows its number. */
#define WORDS_MAX 96u
static const char *whose(const char *uri, char words[WORDS_MAX]) {
    const char *owner = uri ? owner_in(uri) : NULL;
    if (uri_is_ours(uri))
        words[0] = '\0';
    else if (!owner)
        snprintf(words, WORDS_MAX, " of another daemon");
    else
        snprintf(words, WORDS_MAX, " of the daemon at %.*s", (int)strcspn(owner, "/"), owner);
    return words;
}

void lessee_told(const struct session *s, uint64_t lease, const char *uri) {
    char words[WORDS_MAX];
    AUDIT(ATTACHED, uri ? "link" : "local", session_who(s), object_of(s, lease, uri),
          ("session %" PRIu64 " is lessee of lease %" PRIu64 "%s, by %s", s->id, lease,
           whose(uri, words), uri ? "link" : "this daemon"));
}

void lessee_told_end(const struct session *s, uint64_t lease, const char *uri, const char *why) {
    char words[WORDS_MAX];
    EVENT("attach", "ended", session_who(s), object_of(s, lease, uri),
          ("session %" PRIu64 " is lessee of lease %" PRIu64 "%s no more: %s", s->id, lease,
           whose(uri, words), why));
}
