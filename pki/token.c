/* SPDX-License-Identifier: MIT */
#include "pki/token.h"
#include "pki/files.h"
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "rdmad-join-token 1\nhash %s\nexpires %" PRId64 "\ndays %u\n"
#define FORMAT_READ "rdmad-join-token 1\nhash %64[0-9a-f]\nexpires %19" SCNd64 "\ndays %9u\n%n"
#define TAKEN ".taken" /* at the end of its file's name */
#define LISTED_MAX (2 * PKI_TOKENS_MAX)

/* ---- text ----------------------------------------------------------------------------------- */

#define PADDED 88u /* 66 bytes of base64, of which the last two characters are padding */
_Static_assert(sizeof(struct pki_token) == 64, "a token is 64 bytes");

const char *pki_token_print(const struct pki_token *token, char buf[PKI_TOKEN_TEXT]) {
    unsigned char text[PADDED + 1];
    EVP_EncodeBlock(text, (const unsigned char *)token, sizeof(*token));
    for (unsigned i = 0; i < PKI_TOKEN_TEXT - 1; i++)
        buf[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    buf[PKI_TOKEN_TEXT - 1] = '\0';
    OPENSSL_cleanse(text, sizeof(text));
    return buf;
}

bool pki_token_parse(const char *text, struct pki_token *out) {
    unsigned char padded[PADDED + 1], bytes[PADDED];
    char again[PKI_TOKEN_TEXT];
    if (strnlen(text, PKI_TOKEN_TEXT) != PKI_TOKEN_TEXT - 1)
        return false;
    for (unsigned i = 0; i < PKI_TOKEN_TEXT - 1; i++)
        padded[i] = (unsigned char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
    memcpy(padded + PKI_TOKEN_TEXT - 1, "==", 3);
    if (EVP_DecodeBlock(bytes, padded, PADDED) != PADDED / 4 * 3)
        return false;
    memcpy(out, bytes, sizeof(*out));
    OPENSSL_cleanse(bytes, sizeof(bytes));
    OPENSSL_cleanse(padded, sizeof(padded));
    return !strcmp(pki_token_print(out, again), text); /* one spelling of each */
}

/* What is not random is there already. As text it is a word of a command line, where "-" at its
 * front would make it an option. */
static bool token_fill(struct pki_token *token) {
    char text[PKI_TOKEN_TEXT];
    bool good;
    do
        good = RAND_bytes(token->id, sizeof(token->id)) == 1 &&
               RAND_priv_bytes(token->secret, sizeof(token->secret)) == 1;
    while (good && pki_token_print(token, text)[0] == '-');
    OPENSSL_cleanse(text, sizeof(text));
    return good;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void id_text(const struct pki_token *token, char out[2 * PKI_TOKEN_ID_BYTES + 1]) {
    for (unsigned i = 0; i < PKI_TOKEN_ID_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", token->id[i]);
}

static bool hash_text(const struct pki_token *token, char out[65]) {
    static const char domain[] = "rdmad join token 1";
    unsigned char all[sizeof(domain) + PKI_TOKEN_ID_BYTES + PKI_TOKEN_SECRET_BYTES], hash[32];
    unsigned size = 0;
    memcpy(all, domain, sizeof(domain));
    memcpy(all + sizeof(domain), token->id, PKI_TOKEN_ID_BYTES);
    memcpy(all + sizeof(domain) + PKI_TOKEN_ID_BYTES, token->secret, PKI_TOKEN_SECRET_BYTES);
    bool good = EVP_Digest(all, sizeof(all), hash, &size, EVP_sha256(), NULL) == 1 && size == 32;
    for (unsigned i = 0; good && i < sizeof(hash); i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    OPENSSL_cleanse(all, sizeof(all));
    return good;
}

/* Reads tokens/file. 0, PKI_NOT_THERE or RDMAD_E_*. */
static int token_read(const struct pki_dir *tokens, const char *file, char hash[65],
                      struct pki_token_terms *terms, struct pki_error *err) {
    char *text = NULL;
    size_t size = 0;
    int end = -1, rc = pki_file_read(tokens, file, PKI_SECRET, &text, &size, err);
    if (rc)
        return rc;
    if (sscanf(text, FORMAT_READ, hash, &terms->expires, &terms->days, &end) != 3 || end < 0 ||
        (size_t)end != size || strlen(hash) != 64)
        rc = pki_fail(err, RDMAD_E_CONFIG, "%s/%s is damaged; remove it", tokens->path, file);
    pki_wipe(text, size);
    return rc;
}

/* Those that have expired go; how many there are then. */
static int tokens_prune(const struct pki_dir *tokens, int64_t now, unsigned *left,
                        struct pki_error *err) {
    struct pki_names names;
    int rc = pki_names_read(tokens, "", LISTED_MAX, &names, err);
    *left = names.count;
    for (unsigned i = 0; !rc && i < names.count; i++) {
        struct pki_token_terms terms;
        char hash[65];
        if (!token_read(tokens, names.names[i], hash, &terms, NULL) && terms.expires <= now &&
            !pki_file_remove(tokens, names.names[i], NULL))
            --*left;
    }
    pki_names_free(&names);
    return rc;
}

static int token_note(const struct pki_dir *tokens, const struct pki_token *token,
                      const struct pki_token_terms *terms, struct pki_error *err) {
    char file[2 * PKI_TOKEN_ID_BYTES + 1], hash[65], text[160];
    id_text(token, file);
    if (!hash_text(token, hash))
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot hash a token");
    snprintf(text, sizeof(text), FORMAT, hash, terms->expires, terms->days);
    return pki_file_create(tokens, file, PKI_SECRET, text, strlen(text), err);
}

int pki_token_make(const struct pki_dir *dir, const X509 *ca, int64_t now,
                   const struct pki_token_terms *terms, struct pki_token *out,
                   struct pki_error *err) {
    struct pki_dir tokens;
    unsigned left = 0;
    pki_fingerprint(ca, out->fingerprint);
    if (!token_fill(out))
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "no random bytes for a token");
    int rc = pki_dir_enter_or_make(dir, PKI_TOKENS, false, &tokens, err);
    if (rc)
        return rc;
    rc = tokens_prune(&tokens, now, &left, err);
    if (!rc && left >= PKI_TOKENS_MAX)
        rc = pki_fail(err, RDMAD_E_LIMIT,
                      "%s has %u tokens that have not expired, at most %u are kept; remove some",
                      tokens.path, left, PKI_TOKENS_MAX);
    if (!rc)
        rc = token_note(&tokens, out, terms, err);
    pki_dir_close(&tokens);
    return rc;
}

static int no_such_token(struct pki_error *err) {
    return pki_fail(err, RDMAD_E_PERM,
                    "the token is not known: it was used, has expired, or is of another cluster; "
                    "rdmactl cluster token, where the CA is, prints another");
}

int pki_token_check(const struct pki_dir *dir, const struct pki_token *token, int64_t now,
                    struct pki_token_terms *terms, struct pki_error *err) {
    struct pki_dir tokens;
    char file[2 * PKI_TOKEN_ID_BYTES + 1], theirs[65], ours[65];
    int rc = pki_dir_enter(dir, PKI_TOKENS, &tokens, err);
    if (rc)
        return rc == PKI_NOT_THERE ? no_such_token(err) : rc;
    id_text(token, file);
    rc = token_read(&tokens, file, ours, terms, err);
    pki_dir_close(&tokens);
    if (rc)
        return rc == PKI_NOT_THERE ? no_such_token(err) : rc;
    if (!hash_text(token, theirs))
        return pki_fail_ssl(err, RDMAD_E_SYSTEM, "cannot hash a token");
    if (CRYPTO_memcmp(theirs, ours, 64) != 0 || terms->expires <= now)
        return no_such_token(err);
    return RDMAD_OK;
}

/* ---- using one up --------------------------------------------------------------------------- */

/* Under which names it lies in tokens/: while it is good, and when it was taken. */
struct token_files {
    char good[2 * PKI_TOKEN_ID_BYTES + 1], taken[2 * PKI_TOKEN_ID_BYTES + sizeof(TAKEN)];
};

static int token_enter(const struct pki_dir *dir, const struct pki_token *token,
                       struct pki_dir *tokens, struct token_files *files, struct pki_error *err) {
    id_text(token, files->good);
    snprintf(files->taken, sizeof(files->taken), "%s" TAKEN, files->good);
    return pki_dir_enter(dir, PKI_TOKENS, tokens, err);
}

/* A crash could undo what is not on disk, and the token would be good for another node: so who
 * cannot flush has not taken it, and puts it back. It was this one's rename, so it is nobody
 * else's. */
static int token_take(const struct pki_dir *tokens, const struct token_files *files,
                      struct pki_error *err) {
    int rc = pki_file_move(tokens, files->good, files->taken, err);
    if (rc)
        return rc;
    rc = pki_dir_flush(tokens, err);
    if (rc && pki_file_move(tokens, files->taken, files->good, NULL))
        pki_fail(err, rc,
                 "cannot flush %s, nor give the token back: nobody can use it any more; "
                 "rdmactl cluster token, where the CA is, prints another",
                 tokens->path);
    return rc;
}

int pki_token_take(const struct pki_dir *dir, const struct pki_token *token,
                   struct pki_error *err) {
    struct pki_dir tokens;
    struct token_files files;
    int rc = token_enter(dir, token, &tokens, &files, err);
    if (!rc) {
        rc = token_take(&tokens, &files, err);
        pki_dir_close(&tokens);
    }
    return rc == PKI_NOT_THERE ? no_such_token(err) : rc;
}

void pki_token_used(const struct pki_dir *dir, const struct pki_token *token) {
    struct pki_dir tokens;
    struct token_files files;
    if (token_enter(dir, token, &tokens, &files, NULL))
        return;
    (void)pki_file_remove(&tokens, files.taken, NULL);
    pki_dir_close(&tokens);
}

void pki_token_give_back(const struct pki_dir *dir, const struct pki_token *token) {
    struct pki_dir tokens;
    struct token_files files;
    if (token_enter(dir, token, &tokens, &files, NULL))
        return;
    if (!pki_file_move(&tokens, files.taken, files.good, NULL))
        (void)pki_dir_flush(&tokens, NULL);
    pki_dir_close(&tokens);
}

/* false: the name is not one of a token's. */
static bool row_id(const char *file, struct pki_token_row *row) {
    const char *end = file + strcspn(file, ".");
    row->taken = !strcmp(end, TAKEN);
    if (end != file + sizeof(row->id) - 1 || (*end && !row->taken))
        return false;
    memcpy(row->id, file, sizeof(row->id) - 1);
    row->id[sizeof(row->id) - 1] = '\0';
    return true;
}

int pki_token_list(const struct pki_dir *dir, int64_t now, struct pki_token_row **out,
                   unsigned *count, struct pki_error *err) {
    struct pki_dir tokens;
    struct pki_names names;
    *out = NULL;
    *count = 0;
    int rc = pki_dir_enter(dir, PKI_TOKENS, &tokens, err);
    if (rc)
        return rc == PKI_NOT_THERE ? RDMAD_OK : rc;
    rc = pki_names_read(&tokens, "", LISTED_MAX, &names, err);
    if (!rc && names.count && !(*out = calloc(names.count, sizeof(**out))))
        rc = pki_fail(err, RDMAD_E_NOMEM, "out of memory to list %s", tokens.path);
    for (unsigned i = 0; !rc && i < names.count; i++) {
        struct pki_token_row *row = &(*out)[*count];
        char hash[65];
        if (row_id(names.names[i], row) &&
            !token_read(&tokens, names.names[i], hash, &row->terms, NULL) &&
            row->terms.expires > now)
            ++*count;
    }
    pki_names_free(&names);
    pki_dir_close(&tokens);
    return rc;
}
