/* SPDX-License-Identifier: MIT */
/*
 * Join tokens: good once, until they expire, whatever crashes; and what is on disk lets nobody in.
 */
#include "pki/files.h"
#include "pki/token.h"
#include "tests/unit/pki_rig.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[RIG_PATH];
static struct pki_ca ca;
static struct pki_error err;

static unsigned flushes_that_fail;
static void (*before_failing)(void);

/* In place of libc's. */
int fsync(int fd) {
    if (!flushes_that_fail)
        return (int)syscall(SYS_fsync, fd);
    flushes_that_fail--;
    if (before_failing)
        before_failing();
    errno = EIO;
    return -1;
}

static struct pki_token token_made(int64_t expires) {
    struct pki_token token;
    struct pki_token_terms terms = {.expires = expires, .days = 7};
    cr_assert_eq(pki_ca_open(dir, &ca, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_make(&ca.dir, ca.cert, rig_now(), &terms, &token, &err), 0, "%s",
                 err.text);
    return token;
}

Test(pki_token, a_token_is_text_and_back) {
    struct pki_token token, again;
    char text[PKI_TOKEN_TEXT];
    for (unsigned i = 0; i < 200; i++) {
        cr_assert_eq(RAND_bytes((unsigned char *)&token, sizeof(token)), 1);
        pki_token_print(&token, text);
        cr_assert_eq(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"
                                  "_"),
                     86, "%s", text);
        cr_assert(pki_token_parse(text, &again));
        cr_assert_eq(memcmp(&token, &again, sizeof(token)), 0);
        text[i % 86] = "=+/ \n"[i % 5];
        cr_assert(!pki_token_parse(text, &again), "%s", text);
    }
    cr_assert(!pki_token_parse("", &again));
    cr_assert(!pki_token_parse("AAAA", &again));
}

/* One of 64 would otherwise; tokens that have expired already go when the next one is made. */
Test(pki_token, a_token_is_never_taken_for_an_option) {
    char text[PKI_TOKEN_TEXT];
    rig_init(dir, "n");
    for (unsigned i = 0; i < 700; i++) {
        struct pki_token token = token_made(rig_now() - 1);
        pki_ca_close(&ca);
        cr_assert_neq(pki_token_print(&token, text)[0], '-', "token %u is %s", i, text);
    }
}

Test(pki_token, a_token_is_good_once) {
    struct pki_token_terms terms;
    rig_init(dir, "n");
    struct pki_token token = token_made(rig_now() + 100);
    cr_assert_eq(pki_token_check(&ca.dir, &token, rig_now(), &terms, &err), 0, "%s", err.text);
    cr_assert_eq(terms.days, 7);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), 0);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_PERM);
    cr_assert_eq(pki_token_check(&ca.dir, &token, rig_now(), &terms, &err), RDMAD_E_PERM);
    pki_token_give_back(&ca.dir, &token);
    cr_assert_eq(pki_token_check(&ca.dir, &token, rig_now(), &terms, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), 0, "%s", err.text);
    pki_token_used(&ca.dir, &token);
    pki_token_give_back(&ca.dir, &token);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_PERM, "used, and good again");
    pki_ca_close(&ca);
}

/* It would be good again after a crash, so nobody gets a certificate for it; and it is not lost. */
Test(pki_token, a_token_whose_taking_is_not_on_disk_is_not_taken) {
    struct pki_token_terms terms;
    rig_init(dir, "n");
    struct pki_token token = token_made(rig_now() + 100);
    flushes_that_fail = 2;
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_SYSTEM);
    cr_assert(strstr(err.text, "cannot flush"), "%s", err.text);
    cr_assert_eq(flushes_that_fail, 1, "it was flushed again");
    flushes_that_fail = 0;
    cr_assert_eq(pki_token_check(&ca.dir, &token, rig_now(), &terms, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), 0, "%s", err.text);
    flushes_that_fail = 1; /* who gives it back has nothing to fear of a crash */
    pki_token_give_back(&ca.dir, &token);
    cr_assert_eq(flushes_that_fail, 0);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_PERM);
    pki_token_used(&ca.dir, &token);
    pki_ca_close(&ca);
}

static void remove_what_was_taken(void) {
    struct pki_dir tokens;
    struct pki_names names;
    cr_assert_eq(pki_dir_enter(&ca.dir, "tokens", &tokens, NULL), 0);
    cr_assert_eq(pki_names_read(&tokens, ".taken", 1, &names, NULL), 0);
    cr_assert_eq(names.count, 1);
    cr_assert_eq(unlinkat(tokens.fd, names.names[0], 0), 0);
    pki_names_free(&names);
    pki_dir_close(&tokens);
}

Test(pki_token, a_token_that_cannot_be_given_back_is_told_to_be_lost) {
    rig_init(dir, "n");
    struct pki_token token = token_made(rig_now() + 100);
    flushes_that_fail = 1;
    before_failing = remove_what_was_taken;
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_SYSTEM);
    cr_assert(strstr(err.text, "nobody can use it any more"), "%s", err.text);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), RDMAD_E_PERM);
    pki_ca_close(&ca);
}

Test(pki_token, a_token_expires) {
    struct pki_token_terms terms;
    struct pki_token_row *rows;
    unsigned count;
    rig_init(dir, "n");
    const int64_t expires = rig_now() + 100; /* read once: a second may pass between the lines */
    struct pki_token token = token_made(expires);
    cr_assert_eq(pki_token_check(&ca.dir, &token, expires - 1, &terms, &err), 0);
    cr_assert_eq(pki_token_check(&ca.dir, &token, expires, &terms, &err), RDMAD_E_PERM);
    cr_assert_eq(pki_token_list(&ca.dir, expires - 1, &rows, &count, &err), 0);
    cr_assert_eq(count, 1);
    free(rows);
    cr_assert_eq(pki_token_list(&ca.dir, expires, &rows, &count, &err), 0);
    cr_assert_eq(count, 0);
    free(rows);
    pki_ca_close(&ca);
}

/* What counts is shown, that of a join which a crash has cut off, too; and it expires. */
Test(pki_token, a_token_that_was_taken_is_listed_until_it_expires) {
    struct pki_token_row *rows;
    unsigned count;
    rig_init(dir, "n");
    const int64_t expires = rig_now() + 100;
    struct pki_token token = token_made(expires);
    char other[200];
    snprintf(other, sizeof(other), "rdmad-join-token 1\nhash %064u\nexpires %lld\ndays 7\n", 0,
             (long long)expires);
    rig_write(dir, "tokens/0123456789abcdef.other", other, 0600);
    cr_assert_eq(pki_token_list(&ca.dir, rig_now(), &rows, &count, &err), 0);
    cr_assert(count == 1 && !rows[0].taken);
    char id[sizeof(rows[0].id)];
    memcpy(id, rows[0].id, sizeof(id));
    free(rows);
    cr_assert_eq(pki_token_take(&ca.dir, &token, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_list(&ca.dir, rig_now(), &rows, &count, &err), 0);
    cr_assert_eq(count, 1, "%u are listed", count);
    cr_assert(rows[0].taken && rows[0].terms.expires == expires && rows[0].terms.days == 7);
    cr_assert_str_eq(rows[0].id, id);
    free(rows);
    cr_assert_eq(pki_token_list(&ca.dir, expires, &rows, &count, &err), 0);
    cr_assert_eq(count, 0);
    free(rows);
    pki_ca_close(&ca);
}

/* 10,000 guesses with the right id, and none; the token is good afterwards. */
Test(pki_token, a_token_is_not_guessed) {
    struct pki_token_terms terms;
    rig_init(dir, "n");
    struct pki_token token = token_made(rig_now() + 100), guess = token;
    for (unsigned i = 0; i < 10000; i++) {
        if (i < sizeof(guess.secret) * 8) {
            guess = token;
            guess.secret[i / 8] ^= (uint8_t)(1u << i % 8); /* one bit off */
        } else {
            RAND_bytes(guess.secret, sizeof(guess.secret));
        }
        cr_assert_eq(pki_token_check(&ca.dir, &guess, rig_now(), &terms, &err), RDMAD_E_PERM);
    }
    cr_assert_eq(pki_token_check(&ca.dir, &token, rig_now(), &terms, &err), 0);
    pki_ca_close(&ca);
}

/* What is on disk is no token. */
Test(pki_token, the_directory_does_not_have_the_secret) {
    char file[2 * RIG_PATH], *text;
    struct pki_dir tokens;
    struct pki_token_row *rows;
    unsigned count;
    size_t size;
    rig_init(dir, "n");
    struct pki_token token = token_made(rig_now() + 100);
    cr_assert_eq(pki_token_list(&ca.dir, rig_now(), &rows, &count, &err), 0);
    cr_assert_eq(pki_dir_enter(&ca.dir, "tokens", &tokens, &err), 0);
    cr_assert_eq(pki_file_read(&tokens, rows[0].id, PKI_SECRET, &text, &size, &err), 0);
    for (unsigned i = 0; i < sizeof(token.secret); i++)
        snprintf(file + 2 * i, 3, "%02x", token.secret[i]);
    cr_assert(!strstr(text, file));
    pki_wipe(text, size);
    pki_dir_close(&tokens);
    free(rows);
    pki_ca_close(&ca);
}

/* Two processes, the same token, at once, without the lock: the file is the wall. */
Test(pki_token, of_two_processes_with_one_token_one_wins) {
    rig_init(dir, "n");
    for (unsigned round = 0; round < 50; round++) {
        struct pki_token token = token_made(rig_now() + 100);
        int go[2], won = 0, status;
        pid_t pids[2];
        cr_assert_eq(pipe(go), 0);
        for (unsigned i = 0; i < 2; i++)
            if (!(pids[i] = fork())) {
                struct pki_token_terms terms;
                char byte;
                close(go[1]);
                if (read(go[0], &byte, 1) < 0)
                    _exit(2);
                int rc = pki_token_check(&ca.dir, &token, rig_now(), &terms, NULL);
                _exit(rc ? 1 : pki_token_take(&ca.dir, &token, NULL) ? 1 : 0);
            }
        close(go[0]);
        close(go[1]);
        for (unsigned i = 0; i < 2; i++) {
            cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
            won += WEXITSTATUS(status) == 0;
        }
        cr_assert_eq(won, 1);
        pki_ca_close(&ca);
    }
}

Test(pki_token, the_number_of_tokens_is_bounded) {
    struct pki_token token;
    struct pki_token_terms terms = {.expires = rig_now() + 100, .days = 1};
    rig_init(dir, "n");
    char file[64];
    for (unsigned i = 0; i < PKI_TOKENS_MAX; i++) {
        snprintf(file, sizeof(file), "tokens/%016x", i);
        rig_write(dir, file, "rdmad-join-token 1\n", 0600);
    }
    cr_assert_eq(pki_ca_open(dir, &ca, &err), 0, "%s", err.text);
    cr_assert_eq(pki_token_make(&ca.dir, ca.cert, rig_now(), &terms, &token, &err), RDMAD_E_LIMIT);
    pki_ca_close(&ca);
}
