// Product of rows of bfloat16 and a packed matrix of them, c = a b in floats. A ticket is a run of rows by a run of column
// groups, 64 columns each.
//
// a, a_batch, a_row            rows of pairs, as bfloat_rows.cl writes them; elements from one to the next
// b, b_group                   [n / 64][pairs][64][2] with zeros behind the last column and row; elements of a group
// c, c_batch, c_row            the result
// rows, columns, pairs         M, N, K / 2
// groups, ticket_groups, tiers, ticket_rows, spans   as in matmul_rows.cl
// widest, first_id             rows of the widest instance; id of the one-row instance, neighbours follow
// tiles_id                     id of the instance of tile registers, which has any rows; -1: it is not used
// fetched                      elements of the next group fetched with each pair; 0: none
//
// Error as in micro_pairs.cl. Post-operations follow on each run of rows; batch, row and 16-column vector are n, y and x.
#include "amx.clh"
#include "post_tile.clh"

static void matmul_pairs(__global const matmul_pairs_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans % d->tiers, n = ticket / d->spans / d->tiers;
  const int first_row = span * d->ticket_rows, last_row = min(first_row + d->ticket_rows, d->rows);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  __global const ushort* a = AT(const ushort, banks, d->a) + (long)n * d->a_batch;
  __global float* c = AT(float, banks, d->c) + (long)n * d->c_batch;
  if (d->tiles_id >= 0) TILES_BEGIN;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int columns = min(64, d->columns - g * 64);
    __global const ushort* b = AT(const ushort, banks, d->b) + (long)g * d->b_group;
    __global const ushort* next = b + (d->fetched && g + 1 < d->groups ? d->b_group : 0);
    for (int y = first_row; y < last_row;) {
      const int left = last_row - y, pieces = (left + d->widest - 1) / d->widest, count = d->tiles_id >= 0 ? min(left, d->widest) : (left + pieces - 1) / pieces;
      __global float* to = c + (long)y * d->c_row + g * 64;
      micro_pairs(d->tiles_id >= 0 ? d->tiles_id : d->first_id + count - 1, a + (long)y * d->a_row, d->a_row, b, 0, 0, 0, to,
                  d->c_row, 16, count, columns, d->pairs, 1, 1, 0, 0, -INFINITY, INFINITY, next, d->fetched);
      next += (long)d->fetched * d->pairs;
      post_group(post, posts, banks, to, d->c_row, 0, n, y, count, g, columns);
      y += count;
    }
  }  if (d->tiles_id >= 0) TILES_END;
}
