/* SPDX-License-Identifier: MIT */
/*
 * token.h - join tokens: what lets one node join, once, until it expires.
 *
 * A token is 8 bytes of id, 24 random secret bytes, and the SHA-256 of the CA's certificate, by
 * which who joins knows the CA. As text it is 86 characters of base64url, of which the first is no
 * "-": it stands on command lines. The CA keeps tokens/ID with a hash of it (the secret is long
 * and random: no slow hash is needed), so what is on disk lets nobody in. Of two that use the same
 * token one wins: it takes the file away, to ID.taken, and only then gets a certificate. If there
 * is none, for what is wrong at the CA, the token is given back. After a crash between it is
 * neither: an ID.taken lets nobody in, and goes when it has expired.
 */
#ifndef RDMAD_PKI_TOKEN_H
#define RDMAD_PKI_TOKEN_H

#include "pki/cert.h"
#include "pki/dir.h"

#define PKI_TOKEN_ID_BYTES 8u
#define PKI_TOKEN_SECRET_BYTES 24u
#define PKI_TOKEN_TEXT 87u   /* with the final NUL */
#define PKI_TOKENS_MAX 1024u /* that have not expired */
#define PKI_TOKEN_TTL_MAX_S (30 * 86400)

struct pki_token {
    uint8_t id[PKI_TOKEN_ID_BYTES];
    uint8_t secret[PKI_TOKEN_SECRET_BYTES];
    uint8_t fingerprint[PKI_FINGERPRINT_BYTES]; /* of the CA */
};

const char *pki_token_print(const struct pki_token *token, char buf[PKI_TOKEN_TEXT]);
/* false: the text is no token. */
bool pki_token_parse(const char *text, struct pki_token *out);

struct pki_token_terms {
    int64_t expires; /* seconds since 1970 */
    unsigned days;   /* that the node's certificates are good for */
};

/* Makes one for that CA and notes it in tokens/, from which those that have expired go. Holds no
 * lock: tokens do not get into each other's way. */
int pki_token_make(const struct pki_dir *dir, const X509 *ca, int64_t now,
                   const struct pki_token_terms *terms, struct pki_token *out,
                   struct pki_error *err);
/* Judges id and secret without using them up. RDMAD_E_PERM: there is no such token; the sentence
 * does not tell which of the two is wrong, nor does the time. */
int pki_token_check(const struct pki_dir *dir, const struct pki_token *token, int64_t now,
                    struct pki_token_terms *terms, struct pki_error *err);
/* Takes it: nobody else can, after a crash either. RDMAD_E_PERM: somebody else has. Any other: it
 * is good still, or the sentence says that it is lost. Who took it says what became of it. */
int pki_token_take(const struct pki_dir *dir, const struct pki_token *token, struct pki_error *err);
/* It was used: nothing is left of it. If that fails it stays taken, and is of no use to anybody. */
void pki_token_used(const struct pki_dir *dir, const struct pki_token *token);
/* It was not used, and is good again. If that fails it stays taken. */
void pki_token_give_back(const struct pki_dir *dir, const struct pki_token *token);

/* Those that have not expired, taken or not: ids as text, and when they do. The caller frees *out.
 */
struct pki_token_row {
    char id[2 * PKI_TOKEN_ID_BYTES + 1];
    bool taken; /* a join is under way, or a crash cut one off */
    struct pki_token_terms terms;
};
int pki_token_list(const struct pki_dir *dir, int64_t now, struct pki_token_row **out,
                   unsigned *count, struct pki_error *err);

#endif
