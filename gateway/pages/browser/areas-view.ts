// Lets Admins manage areas.
import type { Named } from './area-choice.ts'
import { admin, useList } from './console-data.ts'
import { Dialog, Listing, Name, useActs } from './console-parts.ts'
import { html, useRef, useState, type VNode } from './render.ts'
import { text } from './words-places.ts'

const RenameDialog = ({
  area,
  onClose,
  onName
}: {
  area: Named
  onClose: () => void
  onName: (name: string) => void
}): VNode => {
  const input = useRef<HTMLInputElement>(null)
  const submit = (event: Event) => {
    event.preventDefault()
    onName(input.current?.value ?? '')
  }
  return html`<${Dialog} title=${text('renameArea', { name: area.name.slice(0, 80) })} onClose=${onClose}>
    <form onSubmit=${submit}><label for="rename">${text('newName')}</label>
      <input ref=${input} id="rename" required maxlength="256" defaultValue=${area.name} dir="auto" autocomplete="off" />
      <div class="buttons"><button type="button" onClick=${onClose}>${text('cancel')}</button><button type="submit" class="main">${text('rename')}</button></div>
    </form><//>`
}

export const AreasView = (): VNode => {
  const list = useList<Named>('areas')
  const { ask, settle, notices } = useActs()
  const [renamed, setRenamed] = useState<Named | undefined>()
  const [name, setName] = useState('')

  const change = async (path: string, method: string, done: string, body?: unknown) => {
    const isDone = settle(await admin(path, { method, body }), done)
    if (isDone) list.reload()
    return isDone
  }
  const create = async (event: Event) => {
    event.preventDefault()
    if (await change('areas', 'POST', text('created'), { name: name.trim() })) setName('')
  }
  const askDelete = (area: Named) =>
    ask({
      title: text('deleteAsk', { name: area.name.slice(0, 80) }),
      consequence: text('deleteWill'),
      label: text('delete'),
      run: () => void change(`areas/${area.id}`, 'DELETE', text('deleted'))
    })
  const row = (
    area: Named
  ) => html`<tr key=${area.id}><th scope="row" data-label=${text('name')}><${Name} of=${area.name} /></th>
    <td data-label=${text('actions')}><div class="buttons">
      <button type="button" aria-label=${text('renameArea', { name: area.name })} onClick=${() => setRenamed(area)}>${text('rename')}</button>
      <button type="button" aria-label=${text('deleteArea', { name: area.name })} onClick=${() => askDelete(area)}>${text('delete')}</button></div></td></tr>`

  return html`
    <h1>${text('areas')}</h1>
    ${notices}
    <form class="filters" onSubmit=${create}><p class="grow"><label for="area-name">${text('newArea')}</label>
      <input id="area-name" required maxlength="256" value=${name} autocomplete="off" dir="auto" onInput=${(event: InputEvent) => setName((event.target as HTMLInputElement).value)} /></p>
      <button type="submit" class="main">${text('create')}</button></form>
    <${Listing} of=${list} label=${text('areas')} heads=${[text('name'), text('actions')]} row=${row} keepsHeads />
    ${
      renamed !== undefined &&
      html`<${RenameDialog} area=${renamed} onClose=${() => setRenamed(undefined)} onName=${(to: string) => {
        setRenamed(undefined)
        void change(`areas/${renamed.id}`, 'PATCH', text('renamed'), { name: to })
      }} />`
    }`
}
