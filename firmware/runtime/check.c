#include "memory.h"

#include <tq_soc.h>

uint32_t check_memory(void)
{
    volatile uint32_t *const memory = (volatile uint32_t *)TQ_SOC_MEMORY;
    /* One word per address line, which detects an open line or a chip of another size. */
    for (uint32_t at = 4; at < TQ_BOARD_MEMORY_BYTES; at *= 2u)
        memory[at / 4u] = ~at;
    memory[0] = 0;
    for (uint32_t at = 4; at < TQ_BOARD_MEMORY_BYTES; at *= 2u) {
        if (memory[at / 4u] != ~at)
            return at;
    }
    return memory[0] == 0 ? TQ_BOARD_MEMORY_BYTES : 0;
}
