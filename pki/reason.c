/* SPDX-License-Identifier: MIT */
#include "pki/reason.h"
#include "pki/cert.h"
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- certificates --------------------------------------------------------------------------- */

static int why_dates(const char *subject, const X509 *cert, bool early, struct pki_error *err) {
    char date[PKI_DATE_TEXT], now[PKI_DATE_TEXT];
    const ASN1_TIME *limit = early ? X509_get0_notBefore(cert) : X509_get0_notAfter(cert);
    pki_date_text(pki_seconds(limit), date);
    pki_date_text(time(NULL), now);
    if (early)
        return pki_fail(
            err, RDMAD_E_PERM,
            "the certificate of %.80s is not valid before %s, and here it is %s; set the "
            "clock that is wrong",
            subject, date, now);
    return pki_fail(err, RDMAD_E_PERM,
                    "the certificate of %.80s has expired at %s, and here it is %s; its node must "
                    "join again with a new token, or one of the clocks is wrong",
                    subject, date, now);
}

static int why_issuer(const char *subject, const X509 *cert, struct pki_error *err) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    long length = 0;
    if (bio && cert && X509_NAME_print_ex(bio, X509_get_issuer_name(cert), 0, XN_FLAG_RFC2253) >= 0)
        length = BIO_get_mem_data(bio, &data);
    int rc = pki_fail(err, RDMAD_E_PERM,
                      "the certificate of %.70s is of a CA (%.*s) that is not in trust/ here; put "
                      "the CA's certificate there, or have the node join this cluster",
                      subject, length > 60 ? 60 : (int)length, length > 0 ? data : "");
    BIO_free(bio);
    return rc;
}

int pki_why_verdict(int verdict, X509 *cert, struct pki_error *err) {
    char subject[PKI_SUBJECT_TEXT] = "the peer";
    if (cert)
        pki_subject_text(cert, subject);
    switch (verdict) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
        if (cert)
            return why_dates(subject, cert, verdict == X509_V_ERR_CERT_NOT_YET_VALID, err);
        break;
    case X509_V_ERR_CERT_REVOKED:
        return pki_fail(err, RDMAD_E_PERM,
                        "the certificate of %.80s is revoked; if that was a mistake, its node must "
                        "join again with a new token",
                        subject);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_UNTRUSTED:
        return why_issuer(subject, cert, err);
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return pki_fail(err, RDMAD_E_PERM,
                        "the certificate of %.80s is forged: its signature is not the CA's",
                        subject);
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_CERT_REJECTED:
        return pki_fail(err, RDMAD_E_PERM,
                        "the certificate of %.80s is not for this use; it needs the extended key "
                        "usages serverAuth and clientAuth, and the key usage digitalSignature",
                        subject);
    case X509_V_ERR_INVALID_CA:
        return pki_fail(err, RDMAD_E_PERM,
                        "%.80s has signed a certificate and is no CA; only CAs may", subject);
    case X509_V_ERR_CRL_HAS_EXPIRED: /* one that is not valid yet is used (context.c) */
        return pki_fail(
            err, RDMAD_E_PERM,
            "the list of revoked certificates (revoked.crl) here has expired by the clock here, so "
            "the certificate of %.80s cannot be judged; put the CA's current list there, or set "
            "the clock",
            subject);
    case X509_V_ERR_APPLICATION_VERIFICATION:
        return pki_fail(
            err, RDMAD_E_PERM,
            "the certificate of %.80s names no node: its first DNS name, or without any "
            "its common name, must be letters, digits, '.', '_' and '-'",
            subject);
    default:
        break;
    }
    return pki_fail(err, RDMAD_E_PERM, "the certificate of %.80s is not accepted: %s", subject,
                    X509_verify_cert_error_string(verdict));
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* OpenSSL has no place for our own at an SSL but one that is asked for once in a process. */
static pthread_once_t note_once = PTHREAD_ONCE_INIT;
static int note_index;

static void note_free(void *parent, void *note, CRYPTO_EX_DATA *ad, int index, long argl,
                      void *argp) {
    (void)parent, (void)ad, (void)index, (void)argl, (void)argp;
    free(note);
}

static void note_index_get(void) {
    note_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, note_free);
}

static struct pki_error *note_of(const SSL *ssl) {
    pthread_once(&note_once, note_index_get);
    return note_index >= 0 ? SSL_get_ex_data(ssl, note_index) : NULL;
}

static void note_keep(SSL *ssl, const struct pki_error *what) {
    if (!ssl || note_of(ssl) || note_index < 0)
        return;
    struct pki_error *note = malloc(sizeof(*note));
    if (!note)
        return;
    *note = *what;
    if (!SSL_set_ex_data(ssl, note_index, note))
        free(note);
}

void pki_note(SSL *ssl, int code, const char *text) {
    struct pki_error what;
    pki_fail(&what, code, "%s", text);
    note_keep(ssl, &what);
}

void pki_note_verdict(SSL *ssl, int verdict, X509 *cert) {
    struct pki_error what;
    pki_why_verdict(verdict, cert, &what);
    note_keep(ssl, &what);
}

/* ---- handshakes ----------------------------------------------------------------------------- */

/* An alert of the peer's is what it thinks of us; everything else is what we think of it. */
static const struct {
    int reason;
    int code;
    const char *text;
} words[] = {
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, RDMAD_E_PERM,
     "the peer shows no certificate; it has no identity: rdmactl cluster join there gives it one"},
    {SSL_R_WRONG_VERSION_NUMBER, RDMAD_E_PROTOCOL,
     "the peer does not speak TLS; it runs without an identity: rdmactl cluster join there gives "
     "it "
     "one"},
    {SSL_R_HTTP_REQUEST, RDMAD_E_PROTOCOL, "the peer is no rdmad: it speaks HTTP"},
    {SSL_R_UNSUPPORTED_PROTOCOL, RDMAD_E_PROTOCOL, "the peer does not offer TLS 1.3"},
    {SSL_R_VERSION_TOO_LOW, RDMAD_E_PROTOCOL, "the peer does not offer TLS 1.3"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, RDMAD_E_PROTOCOL, "the peer does not take TLS 1.3"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, RDMAD_E_PERM,
     "the peer asks for a certificate and this node has shown none"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, RDMAD_E_PERM,
     "the peer does not trust the CA of this node's certificate; this node must join the peer's "
     "cluster, or the CA's certificate goes into trust/ there"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, RDMAD_E_PERM,
     "the peer says that this node's certificate has expired; rdmactl cluster show tells its "
     "dates, "
     "and both clocks must be right"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, RDMAD_E_PERM,
     "the peer says that this node's certificate is revoked; join again with a new token"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, RDMAD_E_PERM,
     "the peer does not accept this node's certificate (by its clock it may not be valid yet); its "
     "log says why"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, RDMAD_E_PERM,
     "the peer does not accept this node's certificate; its log says why"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, RDMAD_E_PERM,
     "the peer says that this node's certificate is not for this use; it needs the extended key "
     "usages serverAuth and clientAuth"},
    {SSL_R_TLSV1_ALERT_ACCESS_DENIED, RDMAD_E_PERM,
     "the peer does not let this node in; its log says why"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, RDMAD_E_PERM,
     "the peer ended the handshake; its log says why"},
    {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, RDMAD_E_PROTOCOL,
     "the peer does not speak this protocol of rdmad's; only the daemon where rdmactl cluster init "
     "ran takes those that join"},
    {SSL_R_NO_APPLICATION_PROTOCOL, RDMAD_E_PROTOCOL,
     "the peer is no rdmad: it asks for none of rdmad's protocols"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, RDMAD_E_PEER_LOST,
     "the peer closed the connection in the middle of the handshake; its log may say why"},
    {SSL_R_EXCESSIVE_MESSAGE_SIZE, RDMAD_E_LENGTH,
     "the peer's certificates are longer than is taken"},
};

int pki_why(const SSL *ssl, unsigned long error, struct pki_error *err) {
    const struct pki_error *note = ssl ? note_of(ssl) : NULL;
    if (note) {
        *err = *note;
        return err->code;
    }
    if (!error)
        return pki_fail(
            err, RDMAD_E_PEER_LOST,
            "the peer closed the connection in the middle of the handshake; its log may "
            "say why");
    for (size_t i = 0; ERR_GET_LIB(error) == ERR_LIB_SSL && i < sizeof(words) / sizeof(words[0]);
         i++)
        if (ERR_GET_REASON(error) == words[i].reason)
            return pki_fail(err, words[i].code, "%s", words[i].text);
    const char *reason = ERR_reason_error_string(error);
    return pki_fail(err, RDMAD_E_PROTOCOL, "the handshake failed: %s",
                    reason ? reason : "for a reason that has no name");
}
