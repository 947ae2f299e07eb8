/* SPDX-License-Identifier: MIT */
/*
 * renewed.c - shows our next certificate to peers, and takes theirs.
 *
 * What a peer shows has a bound, and one is judged at a time, with a rest after it: so no number of
 * peers that show certificates without pause takes more than a piece of the thread. What is not
 * good is kept, since we may learn to trust its CA before the certificate in use ends.
 */
#include "daemon/peer/connect/renewed.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/connect/certificate.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "daemon/state/identity.h"
#include "pki/context.h"
#include "pki/next.h"
#include <stdlib.h>
#include <string.h>

struct renewed {
    uint32_t total, have;   /* of what is coming, or has come and waits to be judged */
    STACK_OF(X509) * shown; /* that was not good */
    STACK_OF(X509) * certs; /* in use, instead of the handshake's */
    uint8_t *bytes;         /* total of them; NULL: none */
};

/* ---- ours ---------------------------------------------------------------------------------- */

static void renewed_send(struct peer *p, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size; at += PEER_PIECE_BYTES) {
        struct peer_msg m = {.type = PEER_MSG_CERTIFICATE};
        size_t left = size - at;
        m.certificate.total = (uint32_t)size;
        m.certificate.at = (uint32_t)at;
        m.certificate.size = (uint16_t)(left < PEER_PIECE_BYTES ? left : PEER_PIECE_BYTES);
        memcpy(m.certificate.data, bytes + at, m.certificate.size);
        peer_send(p, &m);
    }
}

/* Whether there is one to show that the other end can take. */
static bool renewed_is_due(const struct peer *p, const struct pki_identity *id) {
    if (!id || !p->secured || p->stage != PEER_UP || p->ending)
        return false;
    const X509 *before = SSL_get_certificate(tls_ssl(transport_tls(p->way)));
    if (X509_cmp(before, id->cert) == 0)
        return false;
    if (EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(id->cert)) == 1)
        return true;
    LOG_LIMITED_OF(peer_log(p), NOTICE,
                   ("our certificate is for another key: the connection to %s at %s ends with "
                    "the one before, and is made anew by this",
                    p->name, p->address));
    return false;
}

void renewed_tell(struct peer *p) {
    const struct pki_identity *id = identity_of(p->peers->state);
    struct pki_error wrong;
    uint8_t *bytes;
    size_t size;
    if (!renewed_is_due(p, id) || pki_next_print(id, &bytes, &size, &wrong))
        return;
    if (size <= PEER_CERTIFICATES_MAX)
        renewed_send(p, bytes, size);
    else
        LOG_LIMITED_OF(peer_log(p), WARNING,
                       ("our certificate and its chain have %zu bytes, at most %u are shown "
                        "to peers: connections end with the one before",
                        size, PEER_CERTIFICATES_MAX));
    OPENSSL_free(bytes);
}

/* ---- theirs -------------------------------------------------------------------------------- */

static void renewed_use(struct peer *p, STACK_OF(X509) * certs, int64_t until) {
    struct renewed *r = p->renewed;
    char date[PKI_DATE_TEXT], text[PEER_TEXT];
    X509 *next = sk_X509_value(certs, 0);
    bool news = X509_cmp(renewed_certificate(p, NULL), next) != 0;
    sk_X509_pop_free(r->certs, X509_free);
    r->certs = certs;
    pki_fingerprint_text(next, p->certificate.fingerprint);
    p->certificate.until = pki_seconds(X509_get0_notAfter(next));
    p->certificate.good_until = until;
    if (news)
        LOG_LIMITED_OF(peer_log(p), INFO,
                       ("%s has its next certificate, good until %s", peer_text(p, text),
                        pki_date_text(p->certificate.until, date)),
                       FIELD_U64("PEER", p->id));
}

static int renewed_check(const struct peer *p, STACK_OF(X509) * certs, int64_t *until,
                         struct pki_error *wrong) {
    const struct pki_identity *id = identity_of(p->peers->state);
    X509 *before = SSL_get0_peer_certificate(tls_ssl(transport_tls(p->way)));
    int rc = pki_next_check(id, before, p->outgoing, certs, until, wrong);
    if (!rc && !certificate_fits(p, sk_X509_value(certs, 0)))
        rc = pki_fail(wrong, RDMAD_E_PERM,
                      "the certificate that it shows has not the name or address that was dialled");
    return rc;
}

/* So many bytes will come, 0: none. */
static bool renewed_expect(struct renewed *r, uint32_t total) {
    free(r->bytes);
    r->bytes = total ? malloc(total) : NULL;
    r->total = r->bytes ? total : 0;
    r->have = 0;
    return r->bytes || !total;
}

/* What has come as bytes is shown instead of what was before. */
static int renewed_open(struct renewed *r, struct pki_error *wrong) {
    STACK_OF(X509) *certs = NULL;
    if (!r->total || r->have < r->total)
        return RDMAD_OK;
    int rc = pki_next_parse(r->bytes, r->total, &certs, wrong);
    (void)renewed_expect(r, 0);
    if (rc)
        return rc;
    sk_X509_pop_free(r->shown, X509_free);
    r->shown = certs;
    return RDMAD_OK;
}

void renewed_judge(struct peer *p) {
    struct renewed *r = p->renewed;
    struct pki_error wrong;
    char date[PKI_DATE_TEXT], text[PEER_TEXT];
    int64_t until;
    if (!r || p->ending || !p->way || !identity_of(p->peers->state))
        return;
    list_remove(&p->shown_node);
    int rc = renewed_open(r, &wrong);
    if (!rc && !r->shown)
        return;
    if (!rc)
        rc = renewed_check(p, r->shown, &until, &wrong);
    if (!rc) {
        STACK_OF(X509) *certs = r->shown;
        r->shown = NULL;
        renewed_use(p, certs, until);
        return;
    }
    LOG_LIMITED_OF(peer_log(p), WARNING,
                   ("%s: %s; its connection ends at %s", peer_text(p, text), wrong.text,
                    pki_date_text(p->certificate.good_until, date)),
                   FIELD_U64("PEER", p->id));
}

static void renewed_judge_soon(struct peers *ps) {
    struct timer *t = &ps->shown_timer;
    if (!t->index)
        (void)timer_set(&ps->state->timers, t, clock_after(state_now(ps->state), RENEWED_REST_NS));
}

static void renewed_judges(struct timer *timer, uint64_t now_ns) {
    struct peers *ps = container_of(timer, struct peers, shown_timer);
    struct list *node = list_pop(&ps->shown);
    (void)now_ns;
    if (node)
        renewed_judge(list_entry(node, struct peer, shown_node));
    if (!list_empty(&ps->shown))
        renewed_judge_soon(ps);
}

void renewed_take(struct peer *p, const struct peer_msg *msg) {
    const struct peer_certificate *m = &msg->certificate;
    if (!p->secured) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a CERTIFICATE in clear");
        return;
    }
    if (!p->renewed && !(p->renewed = calloc(1, sizeof(*p->renewed)))) {
        peer_refuse(p, RDMAD_E_NOMEM, "out of memory for a certificate");
        return;
    }
    struct renewed *r = p->renewed;
    if (m->at == 0 && !renewed_expect(r, m->total)) {
        peer_refuse(p, RDMAD_E_NOMEM, "out of memory for a certificate");
        return;
    }
    if (!r->bytes || m->total != r->total || m->at != r->have) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "a CERTIFICATE out of order");
        return;
    }
    memcpy(r->bytes + m->at, m->data, m->size);
    r->have += m->size;
    if (r->have < r->total || !list_empty(&p->shown_node))
        return;
    list_append(&p->peers->shown, &p->shown_node);
    renewed_judge_soon(p->peers);
}

X509 *renewed_certificate(const struct peer *p, STACK_OF(X509) * *chain) {
    const SSL *ssl = tls_ssl(transport_tls(p->way));
    STACK_OF(X509) *certs = p->renewed ? p->renewed->certs : NULL;
    if (chain)
        *chain = certs ? certs : SSL_get_peer_cert_chain(ssl);
    return certs ? sk_X509_value(certs, 0) : SSL_get0_peer_certificate(ssl);
}

void renewed_forget(struct peer *p) {
    struct renewed *r = p->renewed;
    list_remove(&p->shown_node);
    p->renewed = NULL;
    if (!r)
        return;
    sk_X509_pop_free(r->shown, X509_free);
    sk_X509_pop_free(r->certs, X509_free);
    free(r->bytes);
    free(r);
}

/* ---- all of them --------------------------------------------------------------------------- */

void renewed_start(struct peers *ps) {
    list_init(&ps->shown);
    timer_init(&ps->shown_timer, renewed_judges);
}

void renewed_stop(struct peers *ps) {
    timer_unset(&ps->state->timers, &ps->shown_timer);
}
