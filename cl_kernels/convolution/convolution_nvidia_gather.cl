// Convolution of channels that are no whole chunks for NVIDIA GPUs, such as a network's first one: an implicit matrix product.
//
// x [N, C, H, W] in any order of axes, y [N, O, H, W] in byxf, w [O][kh][kw][C / groups], bias [O] or none; half or float, as
// PRODUCT of nvidia_tile.clh wants. Rows, columns and k of the product as in convolution_nvidia.cl; its elements are read one
// by one. O of a group is a multiple of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles * TILE_ITEMS, parts of k, groups), groups of TILE_ITEMS; parts and PARTS as in convolution_nvidia.cl.
// table: as there, with the first channel of a group `rest[14]` elements behind that of the one before; terms: for each k offset
// in x and place along y and x.
// Error: that of PRODUCT for n = taps * C / groups terms, plus the post-operations'.
#define RANK 5
#include "halves.clh"
#include "vectors.clh"
#include "ptx.clh"
#include "ptx_75.clh"
#include "nvidia_convolution.clh"

#if PRODUCT == PRODUCT_F16
  #define WORD ushort
#else
  #define WORD uint
#endif
#define WORDS (4 / (int)sizeof(WORD))

// Element i of a chunk's 16 bytes.
static void put(uint* chunk, const int i, const uint bits) { chunk[i / WORDS] |= bits << (i % WORDS * 16); }

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void convolution_nvidia_gather(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), TENSOR(parts), __global const int* table,
    __global const int* terms, POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int outputs = rest[1], count = rest[0] * rest[2], units = (count + CHUNK - 1) / CHUNK;
  const int pixels = rest[3] * rest[4] * rest[5];
  const int id = get_local_id(0), warp = id / 32, lane = id % 32, group = get_group_id(2);
  const int2 start = tile_start(pixels, outputs), steps = tile_steps(units);
  const int p0 = start.x, o0 = start.y;

  // What this work-item copies: chunk `id % CHUNKS` of every TILE_STRIDE-th row.
  const int row = id / CHUNKS, chunk = id % CHUNKS, place = PLACE(row, chunk);
  // In registers: copies name memory, so that the compiler would read tables again in each step.
  const int rows_of_x = rest[6], columns_of_x = rest[7], weights_step = TILE_STRIDE * count;
  __global const WORD* source = BASE_OF(const WORD, in0) + x[0] + group * rest[14];
  __global const WORD* weights = BASE_OF(const WORD, in1) + ((long)group * outputs + o0 + row) * count;
  int top[ROWS_EACH], left[ROWS_EACH], base[ROWS_EACH];
  tile_windows(p0 + row, pixels, x, rest, top, left, base);
  const uint there = tile_there(o0 + row, outputs, COLUMNS_EACH);
  int unit = steps.x * CHUNKS + chunk;

#define TILE_LOAD(stage)                                                                                            \
  do {                                                                                                              \
    __local char* target = (stage) + place;                                                                         \
    uint rows[ROWS_EACH][4], columns[COLUMNS_EACH][4];                                                              \
    _Pragma("unroll") for (int i = 0; i < ROWS_EACH; i++) rows[i][0] = rows[i][1] = rows[i][2] = rows[i][3] = 0;    \
    _Pragma("unroll") for (int i = 0; i < COLUMNS_EACH; i++)                                                        \
      columns[i][0] = columns[i][1] = columns[i][2] = columns[i][3] = 0;                                            \
    _Pragma("unroll") for (int e = 0; e < CHUNK; e++) {                                                             \
      const int k = unit * CHUNK + e, known = min(k, count - 1);                                                    \
      const int offset = terms[3 * known], right = terms[3 * known + 2];                                            \
      const int down = k < count ? terms[3 * known + 1] : NOWHERE;                                                  \
      _Pragma("unroll") for (int i = 0; i < ROWS_EACH; i++) {                                                       \
        const int inside = (uint)(top[i] + down) < (uint)rows_of_x & (uint)(left[i] + right) < (uint)columns_of_x;  \
        put(rows[i], e, inside ? source[base[i] + offset] : 0);                                                     \
      }                                                                                                             \
      _Pragma("unroll") for (int i = 0; i < COLUMNS_EACH; i++)                                                      \
        put(columns[i], e, there >> i & k < count ? weights[i * weights_step + k] : 0);                             \
    }                                                                                                               \
    _Pragma("unroll") for (int i = 0; i < ROWS_EACH; i++)                                                           \
      *(__local uint4*)(target + DOWN(i * TILE_STRIDE)) = (uint4)(rows[i][0], rows[i][1], rows[i][2], rows[i][3]);      \
    _Pragma("unroll") for (int i = 0; i < COLUMNS_EACH; i++)                                                        \
      *(__local uint4*)(target + TILE_B + DOWN(i * TILE_STRIDE)) =                                                      \
          (uint4)(columns[i][0], columns[i][1], columns[i][2], columns[i][3]);                                      \
    unit += CHUNKS;                                                                                                 \
  } while (0)

  tile_sums sums;
  tile_clear(sums);
  TILE_PIPELINE(sums, memory, steps.y, warp, lane);
  CONVOLUTION_WRITE(sums, memory);
}
