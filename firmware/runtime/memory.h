/* The DRAM: initialization and test. */
#ifndef TQ_MEMORY_H
#define TQ_MEMORY_H

#include <stdint.h>

uint32_t cycles_now(void);
/* Write LiteDRAM's sequence to the controller. */
void start_memory(void);
/* Before a run: the accelerator sees what was written. After it: reads see what the accelerator wrote. */
void give_memory(void);
void take_memory(void);
/* Write and read single words; returns the byte offset of the first that differs, or the memory's size. */
uint32_t check_memory(void);

#endif /* TQ_MEMORY_H */
