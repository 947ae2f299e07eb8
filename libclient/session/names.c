/* SPDX-License-Identifier: MIT */
/*
 * names.c - what is published, here or on another daemon, listed.
 *
 * A listing is asked for a page at a time, until the caller's array is full or all are there.
 */
#include "libclient/session/names.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/base/text.h"
#include "libclient/control/control.h"
#include <string.h>

_Static_assert(RDMAD_NAME_KIND_LEASE == RDMAD_NAME_LEASE &&
                   RDMAD_NAME_KIND_SERVICE == RDMAD_NAME_SERVICE,
               "a name's kind is the wire's");

void rdmad_name_from(const struct rdmad_name_entry *from, struct rdmad_name *to) {
    memcpy(to->name, from->name, sizeof(to->name));
    to->name[RDMAD_NAME_MAX] = '\0';
    to->kind = from->kind;
    to->rights = from->rights;
    to->length = from->length;
    to->ttl_ms = rdmad_ns_to_ms(from->ttl_ns);
}

/* One of a program's array, whose elements are as far apart as its own header says. */
static void name_put(const struct rdmad_name_entry *from, char *to, size_t size) {
    struct rdmad_name full;
    rdmad_name_from(from, &full);
    memcpy(to, &size, sizeof(size));
    rdmad_sized_fill(&rdmad_sized_name, to, &full);
}

int rdmad_names_scope(struct rdmad_session *s, const char *where, const char *prefix,
                      char to_where[RDMAD_URI_MAX + 1], char to_prefix[RDMAD_NAME_MAX + 1]) {
    int rc =
        rdmad_copy_text(s, to_where, RDMAD_URI_MAX + 1, where, "URI of the daemon", RDMAD_E_URI);

    return rc ? rc
              : rdmad_copy_text(s, to_prefix, RDMAD_NAME_MAX + 1, prefix, "prefix", RDMAD_E_NAME);
}

int rdmad_names_list(rdmad_session *s, const char *where, const char *prefix, const char *after,
                     int timeout_ms, struct rdmad_name *out, size_t max, size_t *count) {
    RDMAD_LIVE(s, SESSION);
    struct rdmad_names_list_req request = {.timeout_ns = (uint64_t)timeout_ms * RDMAD_NS_PER_MS};
    struct rdmad_names_list_rep reply;
    struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_NAMES_LIST, request, reply)};
    int rc = max ? rdmad_sized_check(s, &rdmad_sized_name, out) : 0;
    size_t stride = max && !rc ? out->size : 0;

    *count = 0;
    if (!rc)
        rc = rdmad_check_request(s, timeout_ms);
    if (!rc)
        rc = rdmad_names_scope(s, where, prefix, request.where, request.prefix);
    if (!rc)
        rc = rdmad_copy_text(s, request.after, sizeof(request.after), after, "name to begin after",
                             RDMAD_E_NAME);
    while (!rc && *count < max) {
        rc = rdmad_control_call(s, &call);
        if (rc)
            break;
        if (reply.count > RDMAD_NAMES_PER_REPLY || (reply.more && !reply.count))
            return rdmad_fail(s, RDMAD_E_PROTOCOL, "rdmad sent a listing of %u names at once",
                              reply.count);
        for (uint32_t i = 0; i < reply.count && *count < max; i++)
            name_put(&reply.entry[i], (char *)out + (*count)++ * stride, stride);
        if (!reply.more)
            break;
        memcpy(request.after, reply.entry[reply.count - 1].name, sizeof(request.after));
    }
    return rc;
}
