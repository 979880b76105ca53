// Measures products of tile registers: four of 16 x 32 by 32 x 16 numbers in each of `rounds`, and the four loads of registers
// that matmul/micro_pair_tiles.cl makes for them.
//
// grid: any, y is not touched
// Inline assembly of x86-64 with AMX: feature amx_bf16.
#include "amx.clh"

__kernel void canary_amx_bf16_products(__global float* y, const int rounds) {
#ifdef CLGRAPH_AMX_BF16
  float16 zeros[16];
  for (int i = 0; i < 16; i++) zeros[i] = 0.0f;
  TILES_BEGIN;
  for (int r = 0; r < rounds; r++) {
    TILE_LOAD(4, zeros, 64);
    TILE_LOAD(6, zeros, 64);
    TILE_ADD(0, 4, 6);
    TILE_LOAD(7, zeros, 64);
    TILE_ADD(1, 4, 7);
    TILE_LOAD(5, zeros, 64);
    TILE_ADD(2, 5, 6);
    TILE_ADD(3, 5, 7);
  }
  TILES_END;
#endif
}
