/* SPDX-License-Identifier: MIT */
/*
 * why_next.c - what to do about an end, a failure or a refusal. Texts only; nothing is looked up
 * but what the events say.
 */
#include "daemon/ctl/why_next.h"
#include "common/errors.h"
#include <rdmad/abi.h>
#include <stddef.h>
#include <string.h>

#define SEE_THERE                                                                                  \
    "see at the other machine whether rdmad runs (systemctl status rdmad; systemctl start rdmad) " \
    "and whether its port may be reached; rdmactl peer add HOST:PORT then tries it at once"
#define SEE_MANUAL "rdmad-errors(7) says what each error means, and what to do about it"

static const struct {
    int code;
    const char *next;
} of_code[] = {
    {RDMAD_E_LEASE_EXPIRED,
     "ask its owner for a new one with a longer time (rdmactl share FILE --ttl "
     "TIME), or have the owner renew it before it ends"},
    {RDMAD_E_LEASE_REVOKED, "ask its owner for a new one: it took this one back, as rdmactl share "
                            "does when it is ended"},
    {RDMAD_E_LEASE_ADMIN,
     "ask the administrator of its owner's machine; rdmactl events there says who revoked it"},
    {RDMAD_E_LEASE_RELEASED, "ask its owner for a new one"},
    {RDMAD_E_LEASE_ORPHANED, "start its owner's program again, and give its new URI to whoever had "
                             "the old one"},
    {RDMAD_E_PEER_LOST, SEE_THERE},
    {RDMAD_E_UNREACHABLE, SEE_THERE},
    {RDMAD_E_LIMIT, "rdmactl limit show tells whose limit that is, and limit set raises it until "
                    "rdmad ends; in a file it stays (rdmad.json(5))"},
    {RDMAD_E_RANGE, "an op stays within the bytes of its pool and of its lease: pool show and, at "
                    "its owner's machine, lease show tell how many they have"},
    {RDMAD_E_RIGHTS, "ask its owner for a lease with that right: rdmactl share gives the right to "
                     "read alone"},
    {RDMAD_E_TIMEOUT, "see whether the other machine is slow, busy or away (rdmactl why link, link "
                      "show), or give the op more time"},
};

/* Events that are no errors. next "": whatever was before is over. */
static const struct {
    const char *what, *cause, *next;
} of_event[] = {
    {"peer", "lost", SEE_THERE},
    {"peer", "unreachable", SEE_THERE},
    {"peer", "up", ""},
    {"peer", "closed", ""},
    {"admitted", "peer", ""},
    {"link", "broken", SEE_THERE},
    {"link", "up", ""},
    {"link", "rebuilt", ""},
    {"channel", "lost", SEE_THERE},
};

static const char *next_of_error(const char *name) {
    for (size_t i = 0; i < sizeof(of_code) / sizeof(of_code[0]); i++)
        if (!strcmp(rdmad_error_name(of_code[i].code), name))
            return of_code[i].next;
    return SEE_MANUAL;
}

const char *why_next_of(int code) {
    return code ? next_of_error(rdmad_error_name(code)) : NULL;
}

static const char *next_of_event(const json_t *event) {
    const char *what = json_string_value(json_object_get(event, "what"));
    const char *cause = json_string_value(json_object_get(event, "cause"));
    if (!what || !cause)
        return NULL;
    for (size_t i = 0; i < sizeof(of_event) / sizeof(of_event[0]); i++)
        if (!strcmp(of_event[i].what, what) && !strcmp(of_event[i].cause, cause))
            return of_event[i].next;
    /* Of an op, and of other failures, it is the error's name. */
    return strncmp(cause, "RDMAD_E_", 8) ? NULL : next_of_error(cause);
}

const char *why_next(const json_t *events) {
    for (size_t i = json_array_size(events); i--;) {
        const char *next = next_of_event(json_array_get(events, i));
        if (next)
            return *next ? next : NULL;
    }
    return NULL;
}
