// First of two steps of a Winograd convolution of blocked tensors: every 6x6 tile of the input, transformed.
//
//   v[tile block][36][channel block][tile][16] = B^T d B     (winograd.clh)
//
// or, for stride 2, every 5x5 tile into 25 positions (winograd_strided.clh).
//
// A ticket is a run of channel blocks of one block of tiles. Tiles are counted through all images, row by row; each makes
// 4x4 or 2x2 pixels of the result. Of a block that is not full the missing tiles are not written.
//
// inp                      the window of pixel (0, 0), in a halo as wide as the last tiles reach
// v                        the result;  v_position, v_block: floats from one position, block of tiles to the next
// in_n, in_c, in_y         pitches of the input
// tiles, image_tiles, tiles_x    tiles in all, of an image, of a row of tiles
// dilation, phase_rows     pixels from one element of the window to the next, and rows of tiles of a phase (winograd.clh)
// edge                     pixels of the result along a tile, 4 or 2
// block_tiles              tiles of a block
// blocks, ticket_blocks, runs    channel blocks, those of a ticket, tickets of a block of tiles
//
// Error: at most 6 2^-24 |B^T| |d| |B|.
#include "winograd.clh"

static void winograd_input_fsv16(__global const winograd_input_fsv16_desc* d, __global char** banks,
                                 __global char* scratch, const int ticket, __global const post_step* post,
                                 const int posts) {
  const int block = ticket / d->runs, first = (ticket - block * d->runs) * d->ticket_blocks;
  const int tile = block * d->block_tiles;
  winograd_block(AT(const float, banks, d->inp), d->in_n, d->in_c, d->in_y, d->image_tiles, d->tiles_x, d->dilation,
                 d->phase_rows, d->edge, tile, min(d->block_tiles, d->tiles - tile), first, min(first + d->ticket_blocks, d->blocks),
                 AT(float, banks, d->v) + (long)block * d->v_block, d->block_tiles, d->v_position);
}
