/* SPDX-License-Identifier: MIT */
/*
 * no_git.c - what Criterion asks of libgit2, to show how two texts differ, in a simpler way: all
 * lines of the one, then all of the other.
 *
 * That library brings thirty others, and reads the machine's certificates when it begins: in each
 * process, and each case is one. So Criterion's archive is linked with this in its place.
 */
#include <git2.h>
#include <string.h>

static int show_lines(char origin, const char *text, size_t length, const git_diff_hunk *hunk,
                      git_diff_line_cb show, void *payload) {
    git_diff_line line = {.origin = origin, .num_lines = 1};
    int rc = 0;
    for (const char *end = text + length; !rc && text < end; text += line.content_len) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        line.content = text;
        line.content_len = newline ? (size_t)(newline + 1 - text) : (size_t)(end - text);
        rc = show(NULL, hunk, &line, payload);
    }
    return rc;
}

int git_diff_buffers(const void *old, size_t old_length, const char *old_path, const void *now,
                     size_t now_length, const char *now_path, const git_diff_options *options,
                     git_diff_file_cb show_file, git_diff_binary_cb show_binary,
                     git_diff_hunk_cb show_hunk, git_diff_line_cb show_line, void *payload) {
    git_diff_hunk hunk = {.old_start = 1, .new_start = 1};
    (void)old_path, (void)now_path, (void)options, (void)show_file, (void)show_binary;
    int rc = show_hunk ? show_hunk(NULL, &hunk, payload) : 0;
    if (!rc && show_line)
        rc = show_lines(GIT_DIFF_LINE_DELETION, old, old_length, &hunk, show_line, payload);
    if (!rc && show_line)
        rc = show_lines(GIT_DIFF_LINE_ADDITION, now, now_length, &hunk, show_line, payload);
    return rc;
}

int git_libgit2_init(void) {
    return 1;
}

int git_libgit2_shutdown(void) {
    return 0;
}
