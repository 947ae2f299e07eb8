/* SPDX-License-Identifier: MIT */
/*
 * lease_audit.c - how a lease was used: counted here, and beside that what lessees' daemons say.
 *
 * What they say may be a lie: so it is only let rise, and no sum of it can wrap.
 */
#include "daemon/state/lease_audit.h"

static void audit_add(struct fabric_audit *sum, const struct fabric_audit *a) {
    uint64_t last = __atomic_load_n(&a->last_use_ns, __ATOMIC_RELAXED);
    sum->bytes_read += __atomic_load_n(&a->bytes_read, __ATOMIC_RELAXED);
    sum->bytes_written += __atomic_load_n(&a->bytes_written, __ATOMIC_RELAXED);
    sum->ops += __atomic_load_n(&a->ops, __ATOMIC_RELAXED);
    sum->refused += __atomic_load_n(&a->refused, __ATOMIC_RELAXED);
    if (last > sum->last_use_ns)
        sum->last_use_ns = last;
}

void lease_audit(const struct lease *l, struct fabric_audit *out) {
    *out = l->audit;
    list_for_each (node, &l->attachments)
        audit_add(out, &list_entry(node, struct attachment, node)->audit);
}

static void said_more(uint64_t *sum, uint64_t more) {
    *sum = more < INT64_MAX - *sum ? *sum + more : INT64_MAX;
}

static void said_add(struct lease_said *sum, const struct lease_said *s) {
    said_more(&sum->bytes_read, s->bytes_read);
    said_more(&sum->bytes_written, s->bytes_written);
    said_more(&sum->ops, s->ops);
}

static void said_max(uint64_t *so_far, uint64_t said) {
    if (said > *so_far)
        *so_far = said < INT64_MAX ? said : INT64_MAX;
}

void attachment_said(struct attachment *a, const struct lease_said *said) {
    said_max(&a->said.bytes_read, said->bytes_read);
    said_max(&a->said.bytes_written, said->bytes_written);
    said_max(&a->said.ops, said->ops);
}

void lease_said(const struct lease *l, struct lease_said *out) {
    *out = l->said;
    list_for_each (node, &l->attachments)
        said_add(out, &list_entry(node, struct attachment, node)->said);
}

void lease_audit_keep(struct lease *l, const struct attachment *a) {
    audit_add(&l->audit, &a->audit);
    said_add(&l->said, &a->said);
}
