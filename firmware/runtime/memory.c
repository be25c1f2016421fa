#include "memory.h"

#include <tq_soc.h>

uint32_t cycles_now(void)
{
    return *(volatile uint32_t *)(TQ_SOC_DEVICES + TQ_DEVICE_TIMER);
}

void start_memory(void)
{
#if TQ_DRAM_STEPS > 0
    static const struct {
        uint16_t offset, value;
        uint32_t cycles;
    } steps[TQ_DRAM_STEPS] = TQ_DRAM_SEQUENCE;
    for (uint32_t i = 0; i < TQ_DRAM_STEPS; i++) {
        const uint32_t began = cycles_now();
        *(volatile uint32_t *)(TQ_SOC_DRAM + steps[i].offset) = steps[i].value;
        while (cycles_now() - began <= steps[i].cycles + 16u) {
        }
    }
#endif
}

uint32_t check_memory(void)
{
    volatile uint32_t *const memory = (volatile uint32_t *)TQ_SOC_MEMORY;
    /* One word per address line: a line that is not connected, or a chip of another size, shows. */
    for (uint32_t at = 4; at < TQ_BOARD_MEMORY_BYTES; at *= 2u)
        memory[at / 4u] = ~at;
    memory[0] = 0;
    for (uint32_t at = 4; at < TQ_BOARD_MEMORY_BYTES; at *= 2u) {
        if (memory[at / 4u] != ~at)
            return at;
    }
    return memory[0] == 0 ? TQ_BOARD_MEMORY_BYTES : 0;
}
