// Counts what a program has allocated, for `drill.mjs --memory`: a library that is loaded before it (LD_PRELOAD). For each byte in
// the pipe HEAP_ASKED it writes a line to the pipe HEAP_TOLD: the bytes in use, after what is free was given back to the system.

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pipes {
    int asked;
    int told;
};

static void *serve(void *given) {
    const struct pipes *pipes = given;
    char byte;
    while (read(pipes->asked, &byte, 1) == 1) {
        malloc_trim(0);
        struct mallinfo2 now = mallinfo2();
        char line[32];
        int length = snprintf(line, sizeof line, "%zu\n", now.uordblks + now.hblkhd);
        if (write(pipes->told, line, length) != length) break;
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    static struct pipes pipes;
    const char *asked = getenv("HEAP_ASKED"), *told = getenv("HEAP_TOLD");
    pthread_t thread;
    if (!asked || !told) return;
    // Both ways, so that neither end waits for the other when it opens its pipe.
    pipes.asked = open(asked, O_RDWR | O_CLOEXEC);
    pipes.told = open(told, O_RDWR | O_CLOEXEC);
    if (pipes.asked >= 0 && pipes.told >= 0) pthread_create(&thread, NULL, serve, &pipes);
}
