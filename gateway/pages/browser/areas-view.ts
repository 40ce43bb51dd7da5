// Lets Admins manage areas.
import type { Named } from './area-choice.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Act, Confirm, Dialog, Name, type Outcome, OutcomeLine, Pager, Table, Waiting } from './console-parts.ts'
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
  const [page, setPage] = useState(1)
  const loaded = useLoad<ListOf<Named>>(`areas?page=${page}&pageSize=50`)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [act, setAct] = useState<Act | undefined>()
  const [renamed, setRenamed] = useState<Named | undefined>()
  const [name, setName] = useState('')

  const change = async (path: string, method: string, done: string, body?: unknown) => {
    const answer = await admin(path, { method, body })
    const isError = answer.status >= 300 || answer.status === 0
    setOutcome({ words: isError ? problemOf(answer) : done, isError })
    if (!isError) loaded.reload()
    return !isError
  }
  const create = async (event: Event) => {
    event.preventDefault()
    if (await change('areas', 'POST', text('created'), { name: name.trim() })) setName('')
  }
  const askDelete = (area: Named) =>
    setAct({
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
    <${OutcomeLine} outcome=${outcome} />
    <form class="filters" onSubmit=${create}><p class="grow"><label for="area-name">${text('newArea')}</label>
      <input id="area-name" required maxlength="256" value=${name} autocomplete="off" dir="auto" onInput=${(event: InputEvent) => setName((event.target as HTMLInputElement).value)} /></p>
      <button type="submit" class="main">${text('create')}</button></form>
    <${Waiting} loaded=${loaded} />
    ${
      loaded.data !== undefined &&
      html`<${Table} label=${text('areas')} heads=${[text('name'), text('actions')]}>${loaded.data.items.map(row)}<//>
      <${Pager} ...${loaded.data} onPage=${setPage} />`
    }
    ${
      renamed !== undefined &&
      html`<${RenameDialog} area=${renamed} onClose=${() => setRenamed(undefined)} onName=${(to: string) => {
        setRenamed(undefined)
        void change(`areas/${renamed.id}`, 'PATCH', text('renamed'), { name: to })
      }} />`
    }
    ${act !== undefined && html`<${Confirm} act=${act} onClose=${() => setAct(undefined)} />`}`
}
