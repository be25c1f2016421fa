/* The memory of a LiteX SoC: LiteX's own sequence initializes LiteDRAM; caches are in front of it. */
#include "memory.h"

#include <generated/csr.h>
#include <generated/mem.h>
#include <generated/soc.h>

#include <tq_soc.h>

#if defined(CSR_SDRAM_BASE) && !TQ_LITEX_BOOTED
#include <generated/sdram_phy.h>
#if defined(SDRAM_PHY_READ_LEVELING_CAPABLE)
#error "this DRAM has to be levelled: let LiteX's BIOS do it, and load this program into main_ram"
#endif
#define STARTS 1
#else
#define STARTS 0
#endif

uint32_t cycles_now(void)
{
    timer0_uptime_latch_write(1);
    return (uint32_t)timer0_uptime_cycles_read();
}

void start_memory(void)
{
#if STARTS
    sdram_dfii_control_write(DFII_CONTROL_CKE | DFII_CONTROL_ODT | DFII_CONTROL_RESET_N);
    init_sequence();
    sdram_dfii_control_write(DFII_CONTROL_SEL);
#endif
}

/* Replace every line of the L2 cache: read twice its size, from a range that no other master writes. The data cache in
 * front of it writes through and was flushed, so that the reads reach the L2 cache. */
static void pass_through_l2(void)
{
#if defined(CONFIG_L2_SIZE)
    const volatile uint32_t *const other = (const volatile uint32_t *)MAIN_RAM_BASE;
    for (uint32_t at = 0; at < 2u * CONFIG_L2_SIZE / 4u; at++)
        (void)other[at];
#endif
}

void give_memory(void)
{
    flush_cpu_dcache();
    pass_through_l2();
}

void take_memory(void)
{
    flush_cpu_dcache();
    pass_through_l2();
    flush_cpu_dcache();
}
