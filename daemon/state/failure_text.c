/* SPDX-License-Identifier: MIT */
/*
 * failure_text.c - see failure_text.h.
 */
#include "daemon/state/failure_text.h"
#include "common/errors.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *op_word(uint8_t opcode) {
    static const char *const words[RDMAD_OP_COUNT] = {
        [RDMAD_OP_NOP] = "NOP",       [RDMAD_OP_READ] = "READ", [RDMAD_OP_WRITE] = "WRITE",
        [RDMAD_OP_CAS] = "CAS",       [RDMAD_OP_FADD] = "FADD", [RDMAD_OP_NOTIFY] = "NOTIFY",
        [RDMAD_OP_SEND] = "SEND",     [RDMAD_OP_RECV] = "RECV", [RDMAD_OP_NOTIFIED] = "NOTIFIED",
        [RDMAD_OP_CANCEL] = "CANCEL",
    };
    return opcode < RDMAD_OP_COUNT ? words[opcode] : "op";
}

static const char *outcome_words(uint8_t opcode, uint8_t outcome) {
    switch (outcome) {
    case RDMAD_DONE:
        return "done";
    case RDMAD_FAILED_UNTOUCHED:
        return "nothing was touched";
    case RDMAD_FAILED_PARTIAL:
        return opcode == RDMAD_OP_READ   ? "the reader's buffer may be partly written"
               : opcode == RDMAD_OP_RECV ? "the receiver's buffer may be partly written"
                                         : "the target may be partly written";
    default:
        return "nobody knows whether it was done";
    }
}

/* What to do next; "": there is nothing to say that the error does not. */
static const char *advice(int status) {
    switch (status) {
    case RDMAD_E_TIMEOUT:
        return "; a busy or lost peer: see link show, or give it more time";
    case RDMAD_E_PEER_LOST:
        return "; see events and why link";
    case RDMAD_E_RANGE:
        return "; it reaches past the end of its pool or lease";
    case RDMAD_E_RIGHTS:
        return "; ask the owner for a lease with that right";
    case RDMAD_E_LIMIT:
        return "; limit show tells whose limit";
    case RDMAD_E_LEASE_EXPIRED:
        return "; renew it in time, or keep it alive";
    case RDMAD_E_HANDLE:
        return "; its pool, lease or channel is not there any more";
    default:
        return "";
    }
}

/* The lease, and the peer that it leads to. */
static void object_words(const struct plane_failure *f, char *out, size_t room) {
    char lease[32] = "";
    if (f->lease)
        snprintf(lease, sizeof(lease), ", lease %" PRIu64, f->lease);
    snprintf(out, room, "%s%s%s", lease, !f->node[0] ? "" : f->lease ? " of " : ", to ", f->node);
}

void failure_text(const struct plane_failure *f, uint64_t session, const char *before,
                  char text[RDMAD_TEXT_MAX + 1]) {
    char object[32 + sizeof(f->node) + 8];
    object_words(f, object, sizeof(object));
    int n = snprintf(text, RDMAD_TEXT_MAX + 1,
                     "%s%s %" PRIu64 " of session %" PRIu64 " (%" PRIu64
                     " bytes%s%s) ended with %s: %s; %s",
                     before, op_word(f->opcode), f->user_data, session, f->length, object,
                     f->route == PLANE_LINK    ? ", by a link"
                     : f->route == PLANE_LOCAL ? ", on this machine"
                                               : ", refused",
                     rdmad_error_name(f->status), rdmad_error_text(f->status),
                     outcome_words(f->opcode, f->outcome));
    char range[96];
    const char *more = advice(f->status);
    if (f->status == RDMAD_E_RANGE && f->lease) {
        snprintf(range, sizeof(range), "; from byte %" PRIu64 " of its lease on%s", f->offset,
                 more + 1);
        more = range;
    }
    if (n > 0 && (size_t)n + strlen(more) <= RDMAD_TEXT_MAX) /* half of it helps nobody */
        memcpy(text + n, more, strlen(more) + 1);
}
