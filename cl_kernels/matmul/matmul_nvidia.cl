// Batched matrix product with bias and post-operations for NVIDIA GPUs.
//
// a [..., M, K] with K innermost, b [..., K, N] with K innermost or, with B_BY_ROW (default 0, PRODUCT_F16 alone), N
// innermost; y [..., M, N] with N innermost; bias in any view on y, or none; half or float, as PRODUCT of nvidia_tile.clh wants.
// Chunks of 16 bytes of a and b lie at multiples of 16 bytes; K and, with B_BY_ROW, N are multiples of CHUNK, N of 4.
// Grid: (tiles * TILE_ITEMS, parts of k, batch), groups of TILE_ITEMS; a group makes TILE_ROWS x TILE_COLUMNS results from its
// part of k. Where there are several parts (PARTS, default 0), the sums go to `parts` [part][batch][M][N], for
// matmul_gpu_sum; else y is written.
// table: dims (batch axes, M, N), views of y, a, b and bias, K, pitch of b along K, whether there is a bias, and where PRODUCT
// scales what TILE_SCALES reads, the rows of an entry, and whether each matrix of the batch has a b of its own.
// Error: that of PRODUCT for K terms, plus the post-operations'.
#include "halves.clh"
#include "vectors.clh"
#include "ptx.clh"
#include "ptx_75.clh"
#include "nvidia_tile.clh"

#define ROW_CHUNKS (TILE_COLUMNS / 8)
#define BY_ROW_STRIDE (TILE_ITEMS / ROW_CHUNKS)

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void matmul_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), TENSOR(parts), TENSOR(largest), __global const int* table,
    POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* bias = b + VIEW;
  __global const int* rest = bias + VIEW;
  const int rows = table[RANK - 2], columns = table[RANK - 1], units = rest[0] / CHUNK, pitch = rest[1];
  const int id = get_local_id(0), warp = id / 32, lane = id % 32;
  const int2 start = tile_start(rows, columns), steps = tile_steps(units);
  const int m0 = start.x, n0 = start.y;
  int at[RANK];
  coordinates(get_group_id(2), table, 0, RANK - 2, at);
  at[RANK - 2] = at[RANK - 1] = 0;
  __global const T* left = BASE_OF(const T, in0) + element(a, at);
  __global const T* right = BASE_OF(const T, in1) + element(b, at);

  // What this work-item copies: chunk `id % CHUNKS` of every TILE_STRIDE-th row.
  const int row = id / CHUNKS, chunk = id % CHUNKS, place = PLACE(row, chunk);
  const int by_row = id / ROW_CHUNKS, row_chunk = id % ROW_CHUNKS, by_row_place = BY_ROW_PLACE(by_row, row_chunk);
  int unit = steps.x * CHUNKS + chunk, k = steps.x * STEP + by_row;

  // Distances in chunks, and which rows there are: in registers, because reading instructions name memory, so that the compiler
  // would read tables again in each step.
  const int terms = rest[0], a_step = TILE_STRIDE * (a[RANK - 1] / CHUNK), b_step = TILE_STRIDE * (b[RANK] / CHUNK);
  const int by_row_step = BY_ROW_STRIDE * (pitch / CHUNK), more_b = STEP * (pitch / CHUNK);
  __global const uint4* a_at = (__global const uint4*)left + (long)(m0 + row) * (a[RANK - 1] / CHUNK) + unit;
  __global const uint4* b_at =
      (__global const uint4*)right + (B_BY_ROW ? (long)k * (pitch / CHUNK) + n0 / CHUNK + row_chunk
                                               : (long)(n0 + row) * (b[RANK] / CHUNK) + unit);
  const int by_row_there = n0 + row_chunk * 8 < columns;
  const uint a_rows = tile_there(m0 + row, rows, ROWS_EACH), b_rows = tile_there(n0 + row, columns, COLUMNS_EACH);

#define LOAD_B(address)                                                                                            \
  _Pragma("unroll") for (int i = 0; i < COLUMNS_EACH; i++)                                                         \
    COPY16((address) + TILE_B + place + DOWN(i * TILE_STRIDE), b_at + i * b_step,                                  \
           (unit < units ? b_rows : 0) >> i & 1 ? 16 : 0);                                                         \
  b_at += CHUNKS;
#define LOAD_B_BY_ROW(address)                                                                                     \
  _Pragma("unroll") for (int i = 0; i < STEP / BY_ROW_STRIDE; i++)                                                 \
    COPY16((address) + TILE_B + by_row_place + i * TILE_ITEMS * 16, b_at + i * by_row_step,                        \
           by_row_there & (k + i * BY_ROW_STRIDE < terms) ? 16 : 0);                                               \
  b_at += more_b;                                                                                                  \
  k += STEP;
#define TILE_LOAD(stage)                                                                                           \
  do {                                                                                                             \
    const uint address = SHARED(stage);                                                                            \
    _Pragma("unroll") for (int i = 0; i < ROWS_EACH; i++)                                                          \
      COPY16(address + place + DOWN(i * TILE_STRIDE), a_at + i * a_step,                                           \
             (unit < units ? a_rows : 0) >> i & 1 ? 16 : 0);                                                       \
    a_at += CHUNKS;                                                                                                \
    if (B_BY_ROW) {                                                                                                \
      LOAD_B_BY_ROW(address)                                                                                       \
    } else {                                                                                                       \
      LOAD_B(address)                                                                                              \
    }                                                                                                              \
    unit += CHUNKS;                                                                                                \
  } while (0)

  tile_sums sums;
  tile_clear(sums);
  TILE_SCALES(memory, BASE_OF(const float, largest), rest + 3, (int)get_group_id(2) * (rows / rest[6]),
              (int)get_group_id(2) * rest[7], m0, rows, rest[6], warp, lane)
  TILE_PIPELINE(sums, memory, steps.y, warp, lane);
  TILE_SCALE_BACK(sums);

#define RESULT(sum, row, column)                                                                        \
  do {                                                                                                  \
    const int m = m0 + row, n = n0 + column;                                                            \
    if (m < rows && n < columns) {                                                                      \
      if (PARTS) {                                                                                      \
        const long matrix = (long)get_group_id(1) * get_num_groups(2) + get_group_id(2);                \
        *(BASE_OF(float4, parts) + ((matrix * rows + m) * columns + n) / 4) = sum;                      \
      } else {                                                                                          \
        at[RANK - 2] = m;                                                                               \
        at[RANK - 1] = n;                                                                               \
        float4 whole = sum;                                                                             \
        if (rest[2]) whole += vector_operand(BASE_OF(const T, in2), element(bias, at), bias[RANK]);     \
        STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(whole, at));                                  \
      }                                                                                                 \
    }                                                                                                   \
  } while (0)
  TILE_RESULTS(sums, memory, RESULT);
}
