/* SPDX-License-Identifier: MIT */
/*
 * cert.h - what is read from certificates: the node's name, dates, the fingerprint; and PEM.
 */
#ifndef RDMAD_PKI_CERT_H
#define RDMAD_PKI_CERT_H

#include "pki/error.h"
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#define PKI_FINGERPRINT_BYTES 32u /* SHA-256 of the DER */
#define PKI_FINGERPRINT_TEXT (2 * PKI_FINGERPRINT_BYTES + 1)
#define PKI_DATE_TEXT 32u
#define PKI_SUBJECT_TEXT 128u

/* The certificate by which the join service is known, besides its chain: only the CA itself gives
 * it (a subject alternative name), so no other node of the cluster can take tokens. */
#define PKI_JOIN_SERVICE "urn:rdmad:join-service"

/* The node that a certificate is for: its first DNS name, or without any its common name. false: it
 * has neither, or that is no valid name of a node (rdmad_name_ok). */
bool pki_name_of(const X509 *cert, char out[RDMAD_NAME_MAX + 1]);
/* Whether it has PKI_JOIN_SERVICE. */
bool pki_serves_joins(const X509 *cert);
/* Whether it may sign others. */
bool pki_is_ca(X509 *cert);

void pki_fingerprint(const X509 *cert, uint8_t out[PKI_FINGERPRINT_BYTES]);
const char *pki_fingerprint_text(const X509 *cert, char buf[PKI_FINGERPRINT_TEXT]);
/* Its subject, for sentences: printable ASCII, cut if it is long. */
const char *pki_subject_text(const X509 *cert, char buf[PKI_SUBJECT_TEXT]);

/* Seconds since 1970; INT64_MIN if it is no date. */
int64_t pki_seconds(const ASN1_TIME *time);
/* When to ask for the one after it: when two thirds of its life are over. */
int64_t pki_due(const X509 *cert);
/* "2026-11-23 03:10:00 UTC". */
const char *pki_date_text(int64_t seconds, char buf[PKI_DATE_TEXT]);

/* All certificates of a PEM file, at least one and at most max. The caller frees them
 * (sk_X509_pop_free). Refused: other than version 3, and keys that are not taken (pki/key.h). */
int pki_certs_parse(const char *pem, size_t size, const char *what, int max, STACK_OF(X509) * *out,
                    struct pki_error *err);
/* All CRLs of a PEM file. */
int pki_crls_parse(const char *pem, size_t size, const char *what, STACK_OF(X509_CRL) * *out,
                   struct pki_error *err);
/* As PEM, appended to a BIO of memory, which the caller makes and reads. */
int pki_cert_print(BIO *to, const X509 *cert, struct pki_error *err);

#endif
