/* SPDX-License-Identifier: MIT */
/* Whatever a stranger sends to the join service, in whatever pieces, is refused with a reply that
 * can be read and has a sentence, and uses up no token. The first byte says how long the pieces
 * are. */
#include "pki/init.h"
#include "pki/join_server.h"
#include "pki/sign.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW 1800000000

static char root[] = "/tmp/fuzz_join_request.XXXXXX", dir[64];

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at) {
    (void)is, (void)type, (void)at;
    return remove(path);
}

static void remove_root(void) {
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void prepare(void) {
    struct pki_init init = {
        .path = dir, .name = "ca", .address = "127.0.0.1:1", .days = 90, .now = NOW};
    struct pki_error err;
    if (dir[0])
        return;
    if (!mkdtemp(root) || atexit(remove_root))
        abort();
    snprintf(dir, sizeof(dir), "%s/identity", root);
    if (pki_init(&init, &err))
        abort();
}

static void expect_refused(const struct join_server *server) {
    struct join_bytes reply;
    struct join_outcome outcome;
    struct join_message m;
    struct pki_error err;
    if (join_server_answer(server, dir, NULL, NOW, &reply, &outcome))
        abort();
    if (!outcome.code || !outcome.text[0])
        abort();
    if (join_message_parse(reply.data, reply.size, &m, &err) || m.kind != JOIN_REFUSED ||
        m.code >= 0 || !m.text[0])
        abort();
    join_bytes_free(&reply);
}

/* What is inside a request is parsed on its own, too: there the checks of the message are past. */
static void read_request(const uint8_t *data, size_t size) {
    char name[RDMAD_NAME_MAX + 1];
    EVP_PKEY *key = NULL;
    struct pki_error err = {0};
    int rc = pki_request_read(data, size, name, &key, &err);
    if (rc ? !err.text[0] : !name[0] || !key)
        abort();
    EVP_PKEY_free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct join_server server;
    struct pki_error err;
    int rc = JOIN_MORE;
    if (!size)
        return 0;
    size_t piece = data[0] ? data[0] : size;
    prepare();
    read_request(data, size);
    join_server_init(&server);
    for (size_t at = 1; at < size && rc == JOIN_MORE; at += piece)
        rc = join_server_take(&server, data + at, size - at < piece ? size - at : piece, &err);
    if (server.inbox.room > JOIN_REQUEST_MAX)
        abort();
    if (!rc)
        expect_refused(&server);
    join_server_fini(&server);
    return 0;
}
