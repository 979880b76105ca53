// Adds one product of tile registers, to see whether compiler, CPU and system have them.
//
// acc[16][16] += a[16][32] b[16][16][2] of bfloat16, pairs of neighbours of a by pairs of b.
//
// grid: (1)
// Inline assembly of x86-64 with AMX: feature amx_bf16.
#include "amx.clh"

__kernel void canary_amx_bf16(__global const ushort* a, __global const ushort* b, __global float* acc) {
#ifdef CLGRAPH_AMX_BF16
  TILES_BEGIN;
  TILE_LOAD(0, acc, 64);
  TILE_LOAD(4, a, 64);
  TILE_LOAD(6, b, 64);
  TILE_ADD(0, 4, 6);
  TILE_STORE(0, acc, 64);
  TILES_END;
#endif
}
