/* SPDX-License-Identifier: MIT */
/*
 * reason.h - why a peer's certificate was not accepted, or a handshake failed, in words that tell
 * what to do, from this side's point of view.
 *
 * The verdict on a certificate is noted while OpenSSL judges it, with the SSL that it came over:
 * afterwards it is gone.
 */
#ifndef RDMAD_PKI_REASON_H
#define RDMAD_PKI_REASON_H

#include "pki/error.h"
#include <openssl/ssl.h>

/* What is wrong with a certificate, for X509_V_ERR_* in `verdict`. Returns err->code, never 0. */
int pki_why_verdict(int verdict, X509 *cert, struct pki_error *err);

/* Notes for ssl; the first note stays. Either may find that there is no memory for it. */
void pki_note_verdict(SSL *ssl, int verdict, X509 *cert);
void pki_note(SSL *ssl, int code, const char *text);

/* After a handshake, or what followed it, has failed: fills in err. error is what ERR_get_error or
 * bufferevent_get_openssl_error said; 0: the connection was closed. Returns err->code, never 0. */
int pki_why(const SSL *ssl, unsigned long error, struct pki_error *err);

#endif
