/* Run a fuzz target once on each named file: stored inputs, without a fuzzer. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

#define MOST_BYTES (1 << 20)

int main(int count, char **names)
{
    static uint8_t data[MOST_BYTES];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        uint8_t *copy;
        size_t size;
        if (file == NULL) {
            fprintf(stderr, "%s cannot be opened\n", names[i]);
            return 2;
        }
        size = fread(data, 1, sizeof data, file);
        fclose(file);
        printf("%s\n", names[i]);
        fflush(stdout);
        copy = copied(data, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    return 0;
}
