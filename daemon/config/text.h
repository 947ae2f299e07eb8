/* SPDX-License-Identifier: MIT */
/*
 * text.h - where something stands in the text of a configuration file.
 *
 * jansson keeps no positions. So the text, which is known to be well-formed by then, is walked once
 * more to the value in question. Internal to config/.
 */
#ifndef RDMAD_CONFIG_TEXT_H
#define RDMAD_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A step from a value to one that is in it: the member of that key, or (key NULL) the element. */
struct text_step {
    const char *key;
    size_t index;
};
#define TEXT_STEPS_MAX 8u
struct text_path {
    struct text_step step[TEXT_STEPS_MAX];
    unsigned count;
};

/* Where the last walks came to: who asks for one element after the other, or for one line after the
 * other, has the text walked once. Keys of paths stay as long as it. All zero: to none. */
struct text_memo {
    struct text_path path; /* to an element of an array, which is in no other array */
    size_t element;        /* where that begins */
    size_t counted, line, column;
};

struct text {
    const char *bytes; /* without comments */
    size_t size;
    struct text_memo *memo;
};

struct text_path text_path_key(const struct text_path *path, const char *key);
struct text_path text_path_index(const struct text_path *path, size_t index);

/* Overwrites comments with blanks, so that places stay what they are. */
void text_blank_comments(char *bytes, size_t size);

/* Where the value at the end of path begins, or with want_key the last step's key. 0 when there is
 * no such thing. */
size_t text_locate(const struct text *t, const struct text_path *path, bool want_key);

/* Line and column of a byte, both from 1. */
void text_line(const struct text *t, size_t at, size_t *line, size_t *column);

#endif
