/* SPDX-License-Identifier: MIT */
/*
 * metrics_http.h - as much of HTTP as a scrape needs: GET /metrics, and no for all else. Internal
 * to ctl/.
 */
#ifndef RDMAD_CTL_METRICS_HTTP_H
#define RDMAD_CTL_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#define METRICS_REQUEST_MAX 4096u

enum metrics_answer {
    METRICS_MORE = 0, /* its head is not whole */
    METRICS_OK = 200,
    METRICS_BAD = 400,
    METRICS_NOT_FOUND = 404,
    METRICS_METHOD = 405,
    METRICS_LONG = 431,
    METRICS_FULL = 503,
};

/* Judges what has come so far. *openmetrics: that dialect is asked for. */
enum metrics_answer metrics_http_judge(const char *bytes, size_t size, bool *openmetrics);

/* The head of an answer whose body has so many bytes; and the body of those that say no. Returns
 * the head's length, which is below room. */
size_t metrics_http_head(enum metrics_answer answer, bool openmetrics, size_t body, char *head,
                         size_t room);
const char *metrics_http_body(enum metrics_answer answer);

#endif
