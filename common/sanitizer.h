/* SPDX-License-Identifier: MIT */
/*
 * sanitizer.h - whether a sanitizer watches this build, as gcc says it and as clang does.
 */
#ifndef RDMAD_COMMON_SANITIZER_H
#define RDMAD_COMMON_SANITIZER_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED_ADDRESS 1
#endif
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREAD 1
#endif

/* Memory that is nobody's is hidden from all who touch it, and shown again. */
#ifdef SANITIZED_ADDRESS
#include <sanitizer/asan_interface.h>
#define memory_hide(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define memory_show(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
#else
#define memory_hide(at, size) ((void)(at), (void)(size))
#define memory_show(at, size) ((void)(at), (void)(size))
#endif

#endif
