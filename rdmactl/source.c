/* SPDX-License-Identifier: MIT */
/*
 * source.c - see source.h.
 *
 * What tells no true size (standard input, files of /proc) is read to its end first. Everything
 * else is read straight into a pool of its size, and summed piece by piece while it is in the
 * cache.
 */
#include "rdmactl/source.h"
#include "rdmactl/beneath.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_AT_ONCE \
    (1u << 20) /* between two looks at the signals; summed while it is in a cache */
#define SMALL (64 << 10)

int source_open(struct source *s) {
    struct stat st;
    bool input = !strcmp(s->file, "-"); /* a file of that name is ./- */
    if (input)
        s->file = "standard input";
    s->fd = input ? STDIN_FILENO : open(s->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st))
        return cli_fail_errno(s->file);
    s->directory = !input && S_ISDIR(st.st_mode);
    if (s->directory && s->raw)
        return cli_usage_error("%s is a directory: --raw is for a file", s->file);
    if (!input && !s->directory && !S_ISREG(st.st_mode))
        return cli_fail("RDMAD_E_INVAL",
                        "%s is not a regular file; share takes a file, a directory, or - for "
                        "standard input",
                        s->file);
    if (s->directory) {
        int code = tree_scan(&s->scan, s->fd, s->file);
        s->bytes = s->scan.tree.contents;
        return code;
    }
    /* A small size may be made up, as those of /proc and /sys are: what is there is what counts. */
    s->to_the_end = !S_ISREG(st.st_mode) || st.st_size <= SMALL;
    s->bytes = s->to_the_end ? 0 : (size_t)st.st_size;
    return EXIT_GOOD;
}

/* Which limit is in the way only the daemon knows, and it remembers that somebody met it. */
static int ask_for_pool(struct source *s, uint64_t bytes, bool perhaps_more) {
    char has[CELL_MAX];
    patience_begin("make a pool", 0); /* takes its time, by the size */
    int rc = rdmad_pool_create(s->session, bytes ? bytes : 1, 0, &s->pool);
    patience_end();
    if (rc == RDMAD_E_LIMIT && perhaps_more)
        return cli_fail("RDMAD_E_LIMIT", "%s has %s and perhaps more: %s", s->file,
                        cli_human_bytes(has, (double)bytes), rdmad_last_error(s->session));
    return rc ? cli_fail_rdmad(s->session, rc) : EXIT_GOOD;
}

static int make_pool(struct source *s) {
    uint64_t list = s->directory ? s->scan.tree.bytes : 0;
    s->length = s->bytes;
    bundle_init(&s->footer, s->directory ? BUNDLE_DIRECTORY : BUNDLE_FILE, s->bytes, list);
    if (!s->raw && !bundle_length(&s->footer, &s->length))
        return cli_fail("RDMAD_E_LIMIT", "%s is larger than all memory", s->file);
    return ask_for_pool(s, s->length, false);
}

/* Reads once. ARGS_RUN: there is more; EXIT_GOOD with *got 0: that was the end, or we were
 * interrupted. */
static int read_some(struct source *s, int fd, const char *file, char *to, size_t room,
                     size_t *got) {
    struct pollfd wait[2] = {{.fd = s->signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    *got = 0;
    if (poll(wait, 2, -1) < 0)
        return errno == EINTR ? ARGS_RUN : cli_fail_errno("poll");
    s->interrupted = wait[0].revents && signals_take(s->signals) != 0;
    if (s->interrupted)
        return EXIT_GOOD;
    ssize_t n = read(fd, to, room < READ_AT_ONCE ? room : READ_AT_ONCE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? ARGS_RUN : cli_fail_errno(file);
    *got = (size_t)n;
    return n ? ARGS_RUN : EXIT_GOOD;
}

/* The pieces of the first done bytes that are whole; at the end the last one, too. */
static void sum_up_to(struct source *s, size_t done) {
    char *base = rdmad_pool_base(s->pool);
    uint64_t piece = s->footer.piece,
             whole = done == s->bytes ? bundle_pieces(&s->footer) : done / piece;
    uint8_t *sums = (uint8_t *)base + s->footer.contents + s->footer.list;
    for (; !s->raw && s->summed < whole; s->summed++) {
        uint64_t from = s->summed * piece, left = s->bytes - from;
        bundle_sum(base + from, left < piece ? left : piece, sums + s->summed * BUNDLE_SUM);
    }
}

/* Straight into the pool, from at on. */
static int read_file(struct source *s, int fd, const char *file, size_t at, size_t bytes) {
    char *to = rdmad_pool_base(s->pool);
    int code = ARGS_RUN;
    size_t done = at, got;
    while (done < at + bytes && code == ARGS_RUN) {
        code = read_some(s, fd, file, to + done, at + bytes - done, &got);
        done += got;
        sum_up_to(s, done);
        progress_show(&s->progress, done, s->bytes);
    }
    if (code == EXIT_GOOD && !s->interrupted)
        return cli_fail("RDMAD_E_SYSTEM", "%s became shorter while it was read", file);
    return code == ARGS_RUN ? EXIT_GOOD : code;
}

static int read_entry(struct source *s, const struct tree_entry *e) {
    char path[PATH_MAX], file[2 * PATH_MAX];
    struct stat st;
    if (!tree_path(&s->scan.tree, e, path, sizeof(path)))
        return cli_fail("RDMAD_E_LIMIT", "%s: a path in it is too long", s->file);
    snprintf(file, sizeof(file), "%s/%s", s->file, path);
    int fd = open_beneath(s->fd, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return cli_fail_errno(file);
    int code = fstat(fd, &st) || !S_ISREG(st.st_mode)
                   ? cli_fail("RDMAD_E_SYSTEM", "%s is no file any more", file)
                   : read_file(s, fd, file, e->offset, e->size);
    close(fd);
    return code;
}

static int read_directory(struct source *s) {
    struct tree *tree = &s->scan.tree;
    const char *why = tree_judge(tree, s->bytes, TREE_ENTRIES, TREE_DEPTH);
    int code = why ? cli_fail("RDMAD_E_INTERNAL", "%s: its list is wrong: %s", s->file, why)
                   : make_pool(s);
    for (uint32_t i = 0; i < tree->count && !code && !s->interrupted; i++)
        if (S_ISREG(tree->entry[i].mode))
            code = read_entry(s, &tree->entry[i]);
    if (!code && !s->interrupted)
        memcpy((char *)rdmad_pool_base(s->pool) + s->bytes, tree->list, tree->bytes);
    return code;
}

/* What has no size: into memory of our own, and from there into a pool that fits. */
/* So much has come of what has no size, and it goes on: more than can be shared is not read. */
static int check_size(struct source *s, uint64_t *may) {
    if (s->bytes <= *may)
        return EXIT_GOOD;
    int code = ask_for_pool(s, s->bytes, true);
    if (!code) { /* the limit was raised meanwhile */
        rdmad_pool_destroy(s->pool);
        s->pool = NULL;
        *may = UINT64_MAX;
    }
    return code;
}

static int read_to_the_end(struct source *s) {
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    rdmad_session_get_info(s->session, &info);
    size_t room = 0, got;
    char *all = NULL;
    int code = ARGS_RUN;
    while (code == ARGS_RUN) {
        if (s->bytes == room) {
            room = room ? 2 * room : 2 * SMALL;
            char *grown = realloc(all, room);
            if (!grown) {
                code = cli_fail("RDMAD_E_NOMEM", "out of memory for %s", s->file);
                break;
            }
            all = grown;
        }
        code = read_some(s, s->fd, s->file, all + s->bytes, room - s->bytes, &got);
        s->bytes += got;
        if (code == ARGS_RUN && check_size(s, &info.max_pool_bytes))
            code = EXIT_FAILED;
        progress_show(&s->progress, s->bytes, 0);
    }
    if (!code && !s->interrupted)
        code = make_pool(s);
    if (!code && !s->interrupted && all)
        memcpy(rdmad_pool_base(s->pool), all, s->bytes);
    free(all);
    return code;
}

static void add_footer(struct source *s) {
    char *base = rdmad_pool_base(s->pool);
    const struct tree *tree = &s->scan.tree;
    sum_up_to(s, s->bytes);
    if (s->directory)
        bundle_sum(tree->list, tree->bytes, s->footer.list_sum);
    bundle_root(&s->footer, (uint8_t *)base + s->footer.contents + s->footer.list, s->footer.root);
    memcpy(base + s->length - sizeof(s->footer), &s->footer, sizeof(s->footer));
}

int source_load(struct source *s) {
    progress_start(&s->progress, 0);
    int code = EXIT_GOOD;
    if (s->directory)
        code = read_directory(s);
    else if (s->to_the_end)
        code = read_to_the_end(s);
    else if (!(code = make_pool(s)))
        code = read_file(s, s->fd, s->file, 0, s->bytes);
    if (!code && !s->interrupted && !s->raw)
        add_footer(s);
    progress_end(&s->progress, s->bytes, s->bytes);
    return code;
}

void source_close(struct source *s) {
    tree_free(&s->scan.tree);
    if (s->fd > STDERR_FILENO)
        close(s->fd);
    s->fd = -1;
}
