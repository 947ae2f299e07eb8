/* SPDX-License-Identifier: MIT */
/*
 * certificate.c - the name in a peer's certificate, and what it has to fit.
 *
 * The handshake has shown that the other end has the key of a certificate that we trust. Here it is
 * about which of all whom we trust that is. A daemon's name is its certificate's, whatever it calls
 * itself; one that calls itself otherwise is refused. Who was dialled by a name has to have that
 * name, or one of which it is the first label, since a cluster's certificates often have short
 * names only. Who was dialled by an address has to have that address if its certificate has any:
 * addresses are not proven by who answers there. "localhost" is an address, whatever it is called.
 */
#include "daemon/peer/connect/certificate.h"
#include "daemon/base/address.h"
#include "daemon/base/audit.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/tls.h"
#include "daemon/peer/control/transport.h"
#include "pki/cert.h"
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>

static void certificate_refuse(struct peer *p, const char *cause, const struct error *why) {
    AUDIT(REFUSED, cause, audit_peer(p->certificate.name, p->address), audit_object("peer", p->id),
          ("peer %s at %s: %s", p->certificate.name, p->address, why->text));
    p->audited = true;
    peer_refuse(p, why->code, "%s", why->text);
}

/* Whether it says at which addresses it is used. */
static bool certificate_has_addresses(const X509 *cert) {
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++)
        found |= sk_GENERAL_NAME_value(names, i)->type == GEN_IPADD;
    GENERAL_NAMES_free(names);
    return found;
}

static bool certificate_fits_address(X509 *cert, const char *address) {
    char plain[INET6_ADDRSTRLEN];
    size_t n = strcspn(address, "%"); /* the interface of a link-local one */
    if (!certificate_has_addresses(cert))
        return true;
    if (n >= sizeof(plain))
        return false;
    memcpy(plain, address, n);
    plain[n] = '\0';
    return X509_check_ip_asc(cert, plain, 0) == 1;
}

static bool certificate_fits_name(X509 *cert, const char *node, const char *host) {
    size_t label = strcspn(host, ".");
    if (X509_check_host(cert, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1)
        return true;
    return strcasecmp(host, node) == 0 ||
           (strlen(node) == label && strncasecmp(host, node, label) == 0);
}

bool certificate_fits(const struct peer *p, X509 *cert) {
    struct in6_addr ip;
    if (!p->outgoing || strcasecmp(p->host, "localhost") == 0)
        return true;
    if (address_parse(p->host, &ip) || strchr(p->host, ':'))
        return certificate_fits_address(cert, p->host);
    return certificate_fits_name(cert, p->certificate.name, p->host);
}

bool certificate_take(struct peer *p) {
    struct error why = {0};
    X509 *cert = SSL_get0_peer_certificate(tls_ssl(transport_tls(p->way)));
    pki_fingerprint_text(cert, p->certificate.fingerprint);
    if (certificate_fits(p, cert))
        return true;
    error_set(&why, RDMAD_E_PERM,
              "%.80s was dialled and %.64s has answered, whose certificate has not that name or "
              "address: dial %.64s, or have the certificate made for both",
              p->host, p->certificate.name, p->certificate.name);
    certificate_refuse(p, "tls.other_name", &why);
    return false;
}

bool certificate_names(struct peer *p, const char *node) {
    struct error why;
    if (!p->secured || strcmp(p->certificate.name, node) == 0)
        return true;
    error_set(&why, RDMAD_E_PERM,
              "it calls itself %.64s and its certificate is that of %.64s: set node_name to that, "
              "or leave it out",
              node, p->certificate.name);
    certificate_refuse(p, "tls.claimed_name", &why);
    return false;
}
